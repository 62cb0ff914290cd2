/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/request.h"

extern const VialRoute vial_routes[];
extern const gsize vial_n_routes;
/* Requests for {port}-{id}.anything. */
extern const VialRoute vial_host_route;
