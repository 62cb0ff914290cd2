/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/shared/tables.h"

#include "surfaces/cloudflare/routes.h"
#include "surfaces/e2b/routes.h"
#include "surfaces/native/routes.h"
#include "surfaces/pandastack/routes.h"
#include "surfaces/podflare/routes.h"

const VialRouteTable *const vial_surface_tables[] = {
	&vial_native_table,   &vial_pandastack_table, &vial_podflare_table,   &vial_e2b_table,
	&vial_e2b_data_table, &vial_e2b_port_table,   &vial_cloudflare_table, NULL,
};
