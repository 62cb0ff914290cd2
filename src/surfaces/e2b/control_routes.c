/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's control plane at a glance. */
#include "operations/verbs.h"
#include "surfaces/e2b/control.h"
#include "surfaces/e2b/routes.h"

#define SANDBOX "/sandboxes/{id}"

static const VialRoute routes[] = {
	{ "GET", SANDBOX, vial_e2b_get, 0, 0, VIAL_VERB_SANDBOX_READ },
};

const VialRouteTable vial_e2b_table = { .name = "e2b", .routes = routes, .n_routes = G_N_ELEMENTS(routes), .error_body = vial_e2b_error_body };
