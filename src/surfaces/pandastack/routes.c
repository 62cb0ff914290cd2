/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/pandastack/routes.h"

#include "operations/verbs.h"
#include "surfaces/pandastack/handlers.h"

static const VialRoute routes[] = {
	{ "POST", "/v1/templates/build", vial_pandastack_template_build, VIAL_ROUTE_STREAM_BODY, 0, VIAL_VERB_TEMPLATE_BUILD },
	{ "GET", "/v1/me/tokens", vial_pandastack_token_list, 0, 0, VIAL_VERB_KEY_READ },
	{ "POST", "/v1/me/tokens", vial_pandastack_token_create, 0, 0, VIAL_VERB_KEY_CREATE },
	{ "DELETE", "/v1/me/tokens/{prefix}", vial_pandastack_token_revoke, 0, 0, VIAL_VERB_KEY_REVOKE },
	{ "GET", "/v1/volumes", vial_pandastack_no_volumes, 0, 0, VIAL_VERB_ME },
	{ "POST", "/v1/volumes", vial_pandastack_no_volumes, 0, 0, VIAL_VERB_ME },
	{ "GET", "/v1/volumes/{name}", vial_pandastack_no_volumes, 0, 0, VIAL_VERB_ME },
	{ "DELETE", "/v1/volumes/{name}", vial_pandastack_no_volumes, 0, 0, VIAL_VERB_ME },
};

const VialRouteTable vial_pandastack_table = { .name = "pandastack", .routes = routes, .n_routes = G_N_ELEMENTS(routes) };
