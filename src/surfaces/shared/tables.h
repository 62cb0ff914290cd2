/* SPDX-License-Identifier: Apache-2.0 */
/* Every surface that speaks HTTP. A new one is a folder with a table, and its line in tables.c. */
#pragma once

#include "http/request.h"

extern const VialRouteTable *const vial_surface_tables[]; /* up to NULL */
