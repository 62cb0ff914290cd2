/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/shared/tables.h"

#include "surfaces/native/routes.h"

const VialRouteTable *const vial_surface_tables[] = {
	&vial_native_table,
	NULL,
};
