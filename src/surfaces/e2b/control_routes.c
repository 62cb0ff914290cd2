/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's control plane at a glance. */
#include "operations/verbs.h"
#include "surfaces/e2b/control.h"
#include "surfaces/e2b/routes.h"

#define SANDBOX "/sandboxes/{id}"
#define TEMPLATE "/templates/{template}"

static const VialRoute routes[] = {
	{ "POST", "/v2/sandboxes", vial_e2b_create, 0, 0, VIAL_VERB_SANDBOX_CREATE },
	{ "POST", "/sandboxes", vial_e2b_create, 0, 0, VIAL_VERB_SANDBOX_CREATE },
	{ "GET", "/v2/sandboxes", vial_e2b_list, 0, 0, VIAL_VERB_SANDBOX_LIST },
	{ "GET", "/sandboxes", vial_e2b_list_running, 0, 0, VIAL_VERB_SANDBOX_LIST },
	{ "GET", SANDBOX, vial_e2b_get, 0, 0, VIAL_VERB_SANDBOX_READ },
	{ "DELETE", SANDBOX, vial_e2b_kill, 0, 0, VIAL_VERB_SANDBOX_DELETE },
	{ "POST", SANDBOX "/timeout", vial_e2b_timeout, 0, 0, VIAL_VERB_LIFECYCLE_CHANGE },
	{ "POST", SANDBOX "/refreshes", vial_e2b_refresh, 0, 0, VIAL_VERB_LIFECYCLE_CHANGE },
	{ "POST", SANDBOX "/pause", vial_e2b_pause, 0, 0, VIAL_VERB_HIBERNATE },
	{ "POST", SANDBOX "/resume", vial_e2b_resume, 0, 0, VIAL_VERB_WAKE },
	{ "POST", SANDBOX "/connect", vial_e2b_connect, 0, 0, VIAL_VERB_WAKE },
	{ "POST", "/v2" SANDBOX "/connect", vial_e2b_connect, 0, 0, VIAL_VERB_WAKE },
	{ "POST", SANDBOX "/fork", vial_e2b_fork, 0, 0, VIAL_VERB_FORK },
	{ "POST", SANDBOX "/snapshots", vial_e2b_snapshot, 0, 0, VIAL_VERB_SNAPSHOT_TAKE },
	{ "PUT", SANDBOX "/network", vial_e2b_network_put, 0, 0, VIAL_VERB_NETWORK_CHANGE },
	{ "GET", SANDBOX "/metrics", vial_e2b_metrics, 0, 0, VIAL_VERB_METRICS },
	{ "GET", SANDBOX "/logs", vial_e2b_logs, 0, 0, VIAL_VERB_LOGS },
	{ "GET", "/v2" SANDBOX "/logs", vial_e2b_logs_v2, 0, 0, VIAL_VERB_LOGS },
	{ "GET", "/snapshots", vial_e2b_snapshot_list, 0, 0, VIAL_VERB_SNAPSHOT_READ },
	{ "POST", "/v3/templates", vial_e2b_template_announce, 0, 0, VIAL_VERB_TEMPLATE_BUILD },
	{ "GET", TEMPLATE "/files/{hash}", vial_e2b_template_files, 0, 0, VIAL_VERB_TEMPLATE_UPLOAD },
	{ "PUT", TEMPLATE "/files/{hash}", vial_e2b_template_files_put, VIAL_ROUTE_PUBLIC | VIAL_ROUTE_STREAM_BODY, 0, VIAL_VERB_TEMPLATE_UPLOAD },
	{ "POST", "/v2" TEMPLATE "/builds/{build}", vial_e2b_template_build, 0, 0, VIAL_VERB_TEMPLATE_BUILD },
	{ "GET", TEMPLATE "/builds/{build}/status", vial_e2b_template_status, 0, 0, VIAL_VERB_BUILD_READ },
	{ "GET", "/templates/aliases/{template}", vial_e2b_template_alias, 0, 0, VIAL_VERB_TEMPLATE_READ },
	{ "GET", TEMPLATE "/tags", vial_e2b_tag_list, 0, 0, VIAL_VERB_TEMPLATE_READ },
	{ "POST", "/templates/tags", vial_e2b_tag_assign, 0, 0, VIAL_VERB_TEMPLATE_TAG },
	{ "DELETE", "/templates/tags", vial_e2b_tag_remove, 0, 0, VIAL_VERB_TEMPLATE_TAG },
	{ "DELETE", TEMPLATE, vial_e2b_template_delete, 0, 0, VIAL_VERB_TEMPLATE_DELETE },
	{ "POST", "/volumes", vial_e2b_no_volumes, 0, 0, VIAL_VERB_SANDBOX_CREATE },
	{ "GET", "/volumes", vial_e2b_no_volumes, 0, 0, VIAL_VERB_SANDBOX_LIST },
	{ "GET", "/volumes/{volume}", vial_e2b_no_volumes, 0, 0, VIAL_VERB_SANDBOX_LIST },
	{ "DELETE", "/volumes/{volume}", vial_e2b_no_volumes, 0, 0, VIAL_VERB_SANDBOX_DELETE },
	{ "", "/volumecontent/{rest...}", vial_e2b_no_volumes, VIAL_ROUTE_PUBLIC | VIAL_ROUTE_ANY_METHOD | VIAL_ROUTE_STREAM_BODY, 0,
	  VIAL_VERB_SANDBOX_LIST },
	{ "POST", "/secrets", vial_e2b_no_secrets, 0, 0, VIAL_VERB_SANDBOX_CREATE },
	{ "GET", "/secrets", vial_e2b_no_secrets, 0, 0, VIAL_VERB_SANDBOX_LIST },
	{ "GET", "/secrets/{secret}", vial_e2b_no_secrets, 0, 0, VIAL_VERB_SANDBOX_LIST },
	{ "POST", "/secrets/{secret}", vial_e2b_no_secrets, 0, 0, VIAL_VERB_SANDBOX_CREATE },
	{ "DELETE", "/secrets/{secret}", vial_e2b_no_secrets, 0, 0, VIAL_VERB_SANDBOX_DELETE },
};

const VialRouteTable vial_e2b_table = { .name = "e2b", .routes = routes, .n_routes = G_N_ELEMENTS(routes), .error_body = vial_e2b_error_body };
