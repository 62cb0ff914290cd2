/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's control plane at a glance. */
#include "operations/verbs.h"
#include "surfaces/e2b/control.h"
#include "surfaces/e2b/routes.h"

#define SANDBOX "/sandboxes/{id}"

static const VialRoute routes[] = {
	{ "POST", "/v2/sandboxes", vial_e2b_create, 0, 0, VIAL_VERB_SANDBOX_CREATE },
	{ "POST", "/sandboxes", vial_e2b_create, 0, 0, VIAL_VERB_SANDBOX_CREATE },
	{ "GET", "/v2/sandboxes", vial_e2b_list, 0, 0, VIAL_VERB_SANDBOX_LIST },
	{ "GET", "/sandboxes", vial_e2b_list_running, 0, 0, VIAL_VERB_SANDBOX_LIST },
	{ "GET", SANDBOX, vial_e2b_get, 0, 0, VIAL_VERB_SANDBOX_READ },
	{ "DELETE", SANDBOX, vial_e2b_kill, 0, 0, VIAL_VERB_SANDBOX_DELETE },
	{ "POST", SANDBOX "/timeout", vial_e2b_timeout, 0, 0, VIAL_VERB_LIFECYCLE_CHANGE },
};

const VialRouteTable vial_e2b_table = { .name = "e2b", .routes = routes, .n_routes = G_N_ELEMENTS(routes), .error_body = vial_e2b_error_body };
