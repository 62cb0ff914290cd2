/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dialect at a glance. Its clients can say nothing about a sandbox they create but the address, so each route is there twice: with
 * /t/{template} in front, new sandboxes are of that template.
 */
#include "surfaces/cloudflare/routes.h"

#include "operations/verbs.h"
#include "surfaces/cloudflare/handlers.h"

#define ROUTES(prefix)                                                                                                                            \
	{ "POST", prefix "/v1/sandbox", vial_cloudflare_create, 0, 0, VIAL_VERB_SANDBOX_CREATE },                                                 \
		{ "DELETE", prefix "/v1/sandbox/{id}", vial_cloudflare_delete, 0, 0, VIAL_VERB_SANDBOX_DELETE },                                  \
		{ "GET", prefix "/v1/sandbox/{id}/running", vial_cloudflare_running, 0, 0, VIAL_VERB_SANDBOX_READ },                              \
		{ "POST", prefix "/v1/sandbox/{id}/exec", vial_cloudflare_exec, 0, 0, VIAL_VERB_EXEC },                                           \
		{ "GET", prefix "/v1/sandbox/{id}/file/{path...}", vial_cloudflare_file_read, 0, 0, VIAL_VERB_FILE_READ },                        \
		{ "PUT", prefix "/v1/sandbox/{id}/file/{path...}", vial_cloudflare_file_write, VIAL_ROUTE_STREAM_BODY, 0, VIAL_VERB_FILE_WRITE }, \
		{ "POST", prefix "/v1/sandbox/{id}/persist", vial_cloudflare_persist, 0, 0, VIAL_VERB_FILE_READ },                                \
		{ "POST", prefix "/v1/sandbox/{id}/hydrate", vial_cloudflare_hydrate, VIAL_ROUTE_STREAM_BODY, 0, VIAL_VERB_FILE_WRITE },          \
		{ "GET", prefix "/v1/sandbox/{id}/pty", vial_cloudflare_pty, VIAL_ROUTE_UPGRADE | VIAL_ROUTE_QUERY_KEY, 0, VIAL_VERB_PTY },       \
		{ "POST", prefix "/v1/sandbox/{id}/mount", vial_cloudflare_mount, 0, 0, VIAL_VERB_SANDBOX_READ },                                 \
	{                                                                                                                                         \
		"POST", prefix "/v1/sandbox/{id}/unmount", vial_cloudflare_mount, 0, 0, VIAL_VERB_SANDBOX_READ                                    \
	}

static const VialRoute routes[] = { ROUTES(""), ROUTES("/t/{template}") };

const VialRouteTable vial_cloudflare_table = {
	.name = "cloudflare", .routes = routes, .n_routes = G_N_ELEMENTS(routes), .error_body = vial_cloudflare_error_body
};
