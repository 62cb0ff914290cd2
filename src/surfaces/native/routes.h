/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/request.h"

extern const VialRouteTable vial_native_table;
/* Requests for {port}-{id}.anything. */
extern const VialRoute vial_host_route;
