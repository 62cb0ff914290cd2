/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes: the API at a glance. spec/openapi.yaml says the same in more words, and a test compares them. */
#include "surfaces/native/routes.h"

#include "operations/limits.h"
#include "surfaces/native/handlers.h"

#define SANDBOX "/v1/sandboxes/{id}"
#define PROXY (VIAL_ROUTE_STREAM_BODY | VIAL_ROUTE_ANY_METHOD | VIAL_ROUTE_UPGRADE)
/* Bodies with code or input in them; JSON may need several bytes for one. */
#define LARGE VIAL_REQUEST_MAX_BYTES
#define CONTEXT SANDBOX "/repl/sessions/{sid}"

const VialRoute vial_routes[] = {
	{ "GET", "/healthz", vial_api_healthz, VIAL_ROUTE_PUBLIC, 0 },
	{ "GET", "/v1/healthz", vial_api_healthz, VIAL_ROUTE_PUBLIC, 0 },
	{ "GET", "/v1/me", vial_api_me, 0, 0 },
	{ "GET", "/metrics", vial_api_prometheus, 0, 0 },
	{ "GET", "/v1/metrics", vial_api_prometheus, 0, 0 },

	{ "GET", "/v1/templates", vial_api_template_list, 0, 0 },
	{ "GET", "/v1/templates/{name}", vial_api_template_get, 0, 0 },

	{ "POST", "/v1/sandboxes", vial_api_sandbox_create, 0, 0 },
	{ "GET", "/v1/sandboxes", vial_api_sandbox_list, 0, 0 },
	{ "GET", SANDBOX, vial_api_sandbox_get, 0, 0 },
	{ "DELETE", SANDBOX, vial_api_sandbox_delete, 0, 0 },
	{ "GET", SANDBOX "/lifecycle", vial_api_lifecycle_get, 0, 0 },
	{ "PATCH", SANDBOX "/lifecycle", vial_api_lifecycle_patch, 0, 0 },

	{ "POST", SANDBOX "/pause", vial_api_pause, 0, 0 },
	{ "POST", SANDBOX "/resume", vial_api_resume, 0, 0 },
	{ "POST", SANDBOX "/hibernate", vial_api_hibernate, 0, 0 },
	{ "POST", SANDBOX "/wake", vial_api_wake, 0, 0 },
	{ "POST", SANDBOX "/snapshots", vial_api_snapshot_take, 0, 0 },
	{ "POST", SANDBOX "/fork", vial_api_fork, 0, 0 },
	{ "POST", SANDBOX "/fork-tree", vial_api_fork_tree, 0, 0 },
	{ "POST", SANDBOX "/promote", vial_api_promote, 0, 0 },
	{ "GET", "/v1/snapshots", vial_api_snapshot_list, 0, 0 },
	{ "GET", "/v1/snapshots/{snapshot}", vial_api_snapshot_get, 0, 0 },
	{ "DELETE", "/v1/snapshots/{snapshot}", vial_api_snapshot_delete, 0, 0 },

	{ "GET", SANDBOX "/network", vial_api_network_get, 0, 0 },
	{ "PUT", SANDBOX "/network", vial_api_network_put, 0, 0 },
	{ "POST", SANDBOX "/network/check", vial_api_network_check, 0, 0 },
	{ "GET", SANDBOX "/network/events", vial_api_network_events, 0, 0 },

	{ "POST", SANDBOX "/exec", vial_api_exec, 0, LARGE },
	{ "POST", SANDBOX "/exec/stream", vial_api_exec_stream, 0, LARGE },
	{ "GET", SANDBOX "/processes", vial_api_process_list, 0, 0 },
	{ "POST", SANDBOX "/processes/{pid}/signal", vial_api_process_signal, 0, 0 },
	{ "POST", SANDBOX "/processes/{pid}/stdin", vial_api_process_stdin, 0, LARGE },
	{ "PUT", SANDBOX "/processes/{pid}/stdin", vial_api_process_stdin_stream, VIAL_ROUTE_STREAM_BODY, 0 },
	{ "GET", SANDBOX "/processes/{pid}/attach", vial_api_process_attach, 0, 0 },
	{ "GET", SANDBOX "/ports", vial_api_port_list, 0, 0 },
	{ "ANY", SANDBOX "/ports/{port}", vial_api_port_proxy, PROXY, 0 },
	{ "ANY", SANDBOX "/ports/{port}/{path...}", vial_api_port_proxy, PROXY, 0 },
	{ "POST", SANDBOX "/previews", vial_api_preview_create, 0, 0 },
	{ "GET", SANDBOX "/pty", vial_api_pty, VIAL_ROUTE_UPGRADE, 0 },
	{ "GET", SANDBOX "/logs", vial_api_logs, 0, 0 },
	{ "GET", SANDBOX "/metrics", vial_api_metrics, 0, 0 },

	{ "GET", SANDBOX "/fs", vial_api_file_read, 0, 0 },
	{ "PUT", SANDBOX "/fs", vial_api_file_write, VIAL_ROUTE_STREAM_BODY, 0 },
	{ "DELETE", SANDBOX "/fs", vial_api_file_remove, 0, 0 },
	{ "GET", SANDBOX "/fs/dir", vial_api_file_list, 0, 0 },
	{ "GET", SANDBOX "/fs/stat", vial_api_file_stat, 0, 0 },
	{ "POST", SANDBOX "/fs/mkdir", vial_api_file_mkdir, 0, 0 },
	{ "POST", SANDBOX "/fs/move", vial_api_file_move, 0, 0 },
	{ "GET", SANDBOX "/fs/watch", vial_api_file_watch, 0, 0 },

	{ "POST", SANDBOX "/run", vial_api_run, 0, LARGE },
	{ "POST", SANDBOX "/run/stream", vial_api_run_stream, 0, LARGE },
	{ "POST", SANDBOX "/repl/sessions", vial_api_context_create, 0, 0 },
	{ "GET", SANDBOX "/repl/sessions", vial_api_context_list, 0, 0 },
	{ "DELETE", CONTEXT, vial_api_context_delete, 0, 0 },
	{ "POST", CONTEXT "/interrupt", vial_api_context_interrupt, 0, 0 },
	{ "POST", CONTEXT "/restart", vial_api_context_restart, 0, 0 },
	{ "POST", CONTEXT "/run", vial_api_run, 0, LARGE },
	{ "POST", CONTEXT "/run/stream", vial_api_run_stream, 0, LARGE },
};

/* Public: it takes a token besides the key, and judges both itself. */
const VialRoute vial_host_route = { "ANY", "/", vial_api_port_preview, PROXY | VIAL_ROUTE_PUBLIC, 0 };

const gsize vial_n_routes = G_N_ELEMENTS(vial_routes);
