/* SPDX-License-Identifier: Apache-2.0 */
/* E2B: the control plane shares its paths with all surfaces; the data plane claims its requests by header or host. Both are "e2b" to the record. */
#pragma once

#include "http/request.h"

extern const VialRouteTable vial_e2b_table;
extern const VialRouteTable vial_e2b_data_table; /* envd and the code interpreter */
extern const VialRouteTable vial_e2b_port_table; /* a sandbox's other ports */
