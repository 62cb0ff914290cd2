/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native API, Vial's own HTTP dialect, at a glance: the table of its routes. spec/openapi.yaml says the same in more words, and a test compares
 * them. The last column is what a route does, by verb; verbs.c says which role that takes (`viald --print-routes` prints both), and a test tries
 * every route with every role.
 */
#include "surfaces/native/routes.h"

#include "operations/limits.h"
#include "operations/verbs.h"
#include "surfaces/native/handlers.h"

#define SANDBOX "/v1/sandboxes/{id}"
#define PROXY (VIAL_ROUTE_STREAM_BODY | VIAL_ROUTE_ANY_METHOD | VIAL_ROUTE_UPGRADE)
/* Bodies with code or input in them; JSON may need several bytes for one. */
#define LARGE VIAL_REQUEST_MAX_BYTES
#define PROJECT "/v1/projects/{project}"
#define KEY "/v1/keys/{key}"
#define AGENT "/v1/agents/{agent}"
#define VERSION AGENT "/versions/{version}"
#define SESSION AGENT "/sessions/{session}"
#define BUILD "/v1/templates/builds/{build}"
#define CONTEXT SANDBOX "/repl/sessions/{sid}"

static const VialRoute routes[] = {
	{ "GET", "/healthz", vial_api_healthz, VIAL_ROUTE_PUBLIC, 0, VIAL_VERB_HEALTH },
	{ "GET", "/v1/healthz", vial_api_healthz, VIAL_ROUTE_PUBLIC, 0, VIAL_VERB_HEALTH },
	{ "GET", "/v1/me", vial_api_me, 0, 0, VIAL_VERB_ME },
	{ "GET", "/metrics", vial_api_prometheus, 0, 0, VIAL_VERB_DAEMON_METRICS },
	{ "GET", "/v1/metrics", vial_api_prometheus, 0, 0, VIAL_VERB_DAEMON_METRICS },

	{ "GET", "/v1/projects", vial_api_project_list, 0, 0, VIAL_VERB_PROJECT_READ },
	{ "POST", "/v1/projects", vial_api_project_create, 0, 0, VIAL_VERB_PROJECT_CREATE },
	{ "GET", PROJECT, vial_api_project_get, 0, 0, VIAL_VERB_PROJECT_READ },
	{ "PATCH", PROJECT, vial_api_project_change, 0, 0, VIAL_VERB_PROJECT_CHANGE },
	{ "DELETE", PROJECT, vial_api_project_delete, 0, 0, VIAL_VERB_PROJECT_DELETE },
	{ "GET", PROJECT "/quotas", vial_api_quota_get, 0, 0, VIAL_VERB_QUOTA_READ },
	{ "PUT", PROJECT "/quotas", vial_api_quota_put, 0, 0, VIAL_VERB_QUOTA_CHANGE },
	{ "GET", PROJECT "/usage", vial_api_usage, 0, 0, VIAL_VERB_USAGE_READ },
	{ "GET", "/v1/keys", vial_api_key_list, 0, 0, VIAL_VERB_KEY_READ },
	{ "POST", "/v1/keys", vial_api_key_create, 0, 0, VIAL_VERB_KEY_CREATE },
	{ "GET", KEY, vial_api_key_get, 0, 0, VIAL_VERB_KEY_READ },
	{ "PATCH", KEY, vial_api_key_change, 0, 0, VIAL_VERB_KEY_CHANGE },
	{ "DELETE", KEY, vial_api_key_revoke, 0, 0, VIAL_VERB_KEY_REVOKE },
	{ "POST", KEY "/rotate", vial_api_key_rotate, 0, 0, VIAL_VERB_KEY_ROTATE },
	{ "GET", "/v1/audit", vial_api_audit_list, 0, 0, VIAL_VERB_AUDIT_READ },
	{ "GET", "/v1/audit/export", vial_api_audit_export, 0, 0, VIAL_VERB_AUDIT_EXPORT },
	{ "GET", "/v1/audit/heads", vial_api_audit_heads, 0, 0, VIAL_VERB_AUDIT_READ },
	{ "POST", "/v1/audit/verify", vial_api_audit_verify, 0, 0, VIAL_VERB_AUDIT_VERIFY },
	{ "GET", "/v1/audit/{seq}", vial_api_audit_get, 0, 0, VIAL_VERB_AUDIT_READ },

	{ "GET", "/v1/tiers", vial_api_tier_list, 0, 0, VIAL_VERB_TEMPLATE_READ },
	{ "GET", "/v1/templates", vial_api_template_list, 0, 0, VIAL_VERB_TEMPLATE_READ },
	{ "POST", "/v1/templates", vial_api_template_build, 0, 0, VIAL_VERB_TEMPLATE_BUILD },
	{ "GET", "/v1/templates/builds", vial_api_build_list, 0, 0, VIAL_VERB_BUILD_READ },
	{ "GET", BUILD, vial_api_build_get, 0, 0, VIAL_VERB_BUILD_READ },
	{ "GET", BUILD "/logs", vial_api_build_logs, 0, 0, VIAL_VERB_BUILD_READ },
	{ "POST", BUILD "/cancel", vial_api_build_cancel, 0, 0, VIAL_VERB_TEMPLATE_CANCEL },
	{ "GET", "/v1/templates/{name}", vial_api_template_get, 0, 0, VIAL_VERB_TEMPLATE_READ },
	{ "DELETE", "/v1/templates/{name}", vial_api_template_delete, 0, 0, VIAL_VERB_TEMPLATE_DELETE },
	{ "POST", "/v1/templates/{name}/rebuild", vial_api_template_rebuild, 0, 0, VIAL_VERB_TEMPLATE_REBUILD },

	{ "GET", "/v1/agents", vial_api_agent_list, 0, 0, VIAL_VERB_AGENT_READ },
	{ "POST", "/v1/agents", vial_api_agent_create, 0, 0, VIAL_VERB_AGENT_CREATE },
	{ "GET", AGENT, vial_api_agent_get, 0, 0, VIAL_VERB_AGENT_READ },
	{ "DELETE", AGENT, vial_api_agent_delete, 0, 0, VIAL_VERB_AGENT_DELETE },
	{ "GET", AGENT "/versions", vial_api_version_list, 0, 0, VIAL_VERB_AGENT_READ },
	{ "POST", AGENT "/versions", vial_api_version_create, 0, LARGE, VIAL_VERB_AGENT_VERSION },
	{ "GET", VERSION, vial_api_version_get, 0, 0, VIAL_VERB_AGENT_READ },
	{ "POST", VERSION "/activate", vial_api_version_activate, 0, 0, VIAL_VERB_AGENT_ACTIVATE },
	{ "POST", VERSION "/retire", vial_api_version_retire, 0, 0, VIAL_VERB_AGENT_RETIRE },
	{ "GET", AGENT "/sessions", vial_api_session_list, 0, 0, VIAL_VERB_SESSION_READ },
	{ "GET", SESSION, vial_api_session_get, 0, 0, VIAL_VERB_SESSION_READ },
	{ "DELETE", SESSION, vial_api_session_end, 0, 0, VIAL_VERB_SESSION_END },
	{ "DELETE", AGENT "/users/{user}", vial_api_user_forget, 0, 0, VIAL_VERB_USER_FORGET },
	{ "DELETE", "/v1/users/{user}", vial_api_user_forget, 0, 0, VIAL_VERB_USER_FORGET },
	{ "POST", AGENT "/run", vial_api_agent_run, 0, LARGE, VIAL_VERB_RUN },
	{ "POST", AGENT "/run/stream", vial_api_agent_run_stream, 0, LARGE, VIAL_VERB_RUN },
	{ "POST", AGENT "/exec", vial_api_agent_exec, 0, LARGE, VIAL_VERB_EXEC },
	{ "POST", AGENT "/exec/stream", vial_api_agent_exec_stream, 0, LARGE, VIAL_VERB_EXEC },
	{ "GET", AGENT "/fs", vial_api_agent_file_read, 0, 0, VIAL_VERB_FILE_READ },
	{ "PUT", AGENT "/fs", vial_api_agent_file_write, VIAL_ROUTE_STREAM_BODY, 0, VIAL_VERB_FILE_WRITE },
	{ "DELETE", AGENT "/fs", vial_api_agent_file_remove, 0, 0, VIAL_VERB_FILE_REMOVE },
	{ "GET", AGENT "/fs/dir", vial_api_agent_file_list, 0, 0, VIAL_VERB_FILE_LIST },
	{ "GET", AGENT "/fs/stat", vial_api_agent_file_stat, 0, 0, VIAL_VERB_FILE_LIST },
	{ "POST", AGENT "/fs/mkdir", vial_api_agent_file_mkdir, 0, 0, VIAL_VERB_FILE_MKDIR },
	{ "POST", AGENT "/fs/move", vial_api_agent_file_move, 0, 0, VIAL_VERB_FILE_MOVE },
	{ "GET", AGENT "/fs/watch", vial_api_agent_file_watch, 0, 0, VIAL_VERB_FILE_LIST },

	{ "POST", "/v1/sandboxes", vial_api_sandbox_create, 0, 0, VIAL_VERB_SANDBOX_CREATE },
	{ "GET", "/v1/sandboxes", vial_api_sandbox_list, 0, 0, VIAL_VERB_SANDBOX_LIST },
	{ "GET", SANDBOX, vial_api_sandbox_get, 0, 0, VIAL_VERB_SANDBOX_READ },
	{ "DELETE", SANDBOX, vial_api_sandbox_delete, 0, 0, VIAL_VERB_SANDBOX_DELETE },
	{ "GET", SANDBOX "/lifecycle", vial_api_lifecycle_get, 0, 0, VIAL_VERB_SANDBOX_READ },
	{ "PATCH", SANDBOX "/lifecycle", vial_api_lifecycle_patch, 0, 0, VIAL_VERB_LIFECYCLE_CHANGE },

	{ "POST", SANDBOX "/pause", vial_api_pause, 0, 0, VIAL_VERB_PAUSE },
	{ "POST", SANDBOX "/resume", vial_api_resume, 0, 0, VIAL_VERB_RESUME },
	{ "POST", SANDBOX "/hibernate", vial_api_hibernate, 0, 0, VIAL_VERB_HIBERNATE },
	{ "POST", SANDBOX "/wake", vial_api_wake, 0, 0, VIAL_VERB_WAKE },
	{ "POST", SANDBOX "/snapshots", vial_api_snapshot_take, 0, 0, VIAL_VERB_SNAPSHOT_TAKE },
	{ "POST", SANDBOX "/template", vial_api_template_from_sandbox, 0, 0, VIAL_VERB_TEMPLATE_MAKE },
	{ "POST", SANDBOX "/fork", vial_api_fork, 0, 0, VIAL_VERB_FORK },
	{ "POST", SANDBOX "/fork-tree", vial_api_fork_tree, 0, 0, VIAL_VERB_FORK },
	{ "POST", SANDBOX "/promote", vial_api_promote, 0, 0, VIAL_VERB_PROMOTE },
	{ "POST", SANDBOX "/rollback", vial_api_rollback, 0, 0, VIAL_VERB_ROLLBACK },
	{ "POST", SANDBOX "/merge", vial_api_merge, 0, 0, VIAL_VERB_MERGE },
	{ "POST", SANDBOX "/undo", vial_api_undo, 0, 0, VIAL_VERB_UNDO },
	{ "GET", "/v1/snapshots", vial_api_snapshot_list, 0, 0, VIAL_VERB_SNAPSHOT_READ },
	{ "GET", "/v1/snapshots/{snapshot}", vial_api_snapshot_get, 0, 0, VIAL_VERB_SNAPSHOT_READ },
	{ "DELETE", "/v1/snapshots/{snapshot}", vial_api_snapshot_delete, 0, 0, VIAL_VERB_SNAPSHOT_DELETE },

	{ "GET", SANDBOX "/network", vial_api_network_get, 0, 0, VIAL_VERB_NETWORK_READ },
	{ "PUT", SANDBOX "/network", vial_api_network_put, 0, 0, VIAL_VERB_NETWORK_CHANGE },
	{ "POST", SANDBOX "/network/check", vial_api_network_check, 0, 0, VIAL_VERB_NETWORK_READ },
	{ "GET", SANDBOX "/network/events", vial_api_network_events, 0, 0, VIAL_VERB_NETWORK_READ },

	{ "POST", SANDBOX "/exec", vial_api_exec, 0, LARGE, VIAL_VERB_EXEC },
	{ "POST", SANDBOX "/exec/stream", vial_api_exec_stream, 0, LARGE, VIAL_VERB_EXEC },
	{ "GET", SANDBOX "/processes", vial_api_process_list, 0, 0, VIAL_VERB_PROCESS_READ },
	{ "POST", SANDBOX "/processes/{pid}/signal", vial_api_process_signal, 0, 0, VIAL_VERB_PROCESS_SIGNAL },
	{ "POST", SANDBOX "/processes/{pid}/stdin", vial_api_process_stdin, 0, LARGE, VIAL_VERB_PROCESS_INPUT },
	{ "PUT", SANDBOX "/processes/{pid}/stdin", vial_api_process_stdin_stream, VIAL_ROUTE_STREAM_BODY, 0, VIAL_VERB_PROCESS_INPUT },
	{ "GET", SANDBOX "/processes/{pid}/attach", vial_api_process_attach, 0, 0, VIAL_VERB_PROCESS_READ },
	{ "GET", SANDBOX "/ports", vial_api_port_list, 0, 0, VIAL_VERB_PORT_READ },
	{ "ANY", SANDBOX "/ports/{port}", vial_api_port_proxy, PROXY, 0, VIAL_VERB_TUNNEL },
	{ "ANY", SANDBOX "/ports/{port}/{path...}", vial_api_port_proxy, PROXY, 0, VIAL_VERB_TUNNEL },
	{ "POST", SANDBOX "/previews", vial_api_preview_create, 0, 0, VIAL_VERB_PREVIEW_CREATE },
	{ "GET", SANDBOX "/pty", vial_api_pty, VIAL_ROUTE_UPGRADE, 0, VIAL_VERB_PTY },
	{ "GET", SANDBOX "/logs", vial_api_logs, 0, 0, VIAL_VERB_LOGS },
	{ "GET", SANDBOX "/metrics", vial_api_metrics, 0, 0, VIAL_VERB_METRICS },

	{ "GET", SANDBOX "/fs", vial_api_file_read, 0, 0, VIAL_VERB_FILE_READ },
	{ "PUT", SANDBOX "/fs", vial_api_file_write, VIAL_ROUTE_STREAM_BODY, 0, VIAL_VERB_FILE_WRITE },
	{ "DELETE", SANDBOX "/fs", vial_api_file_remove, 0, 0, VIAL_VERB_FILE_REMOVE },
	{ "GET", SANDBOX "/fs/dir", vial_api_file_list, 0, 0, VIAL_VERB_FILE_LIST },
	{ "GET", SANDBOX "/fs/stat", vial_api_file_stat, 0, 0, VIAL_VERB_FILE_LIST },
	{ "POST", SANDBOX "/fs/mkdir", vial_api_file_mkdir, 0, 0, VIAL_VERB_FILE_MKDIR },
	{ "POST", SANDBOX "/fs/move", vial_api_file_move, 0, 0, VIAL_VERB_FILE_MOVE },
	{ "GET", SANDBOX "/fs/watch", vial_api_file_watch, 0, 0, VIAL_VERB_FILE_LIST },

	{ "POST", SANDBOX "/run", vial_api_run, 0, LARGE, VIAL_VERB_RUN },
	{ "POST", SANDBOX "/run/stream", vial_api_run_stream, 0, LARGE, VIAL_VERB_RUN },
	{ "POST", SANDBOX "/repl/sessions", vial_api_context_create, 0, 0, VIAL_VERB_CONTEXT_CREATE },
	{ "GET", SANDBOX "/repl/sessions", vial_api_context_list, 0, 0, VIAL_VERB_CONTEXT_READ },
	{ "DELETE", CONTEXT, vial_api_context_delete, 0, 0, VIAL_VERB_CONTEXT_DELETE },
	{ "POST", CONTEXT "/interrupt", vial_api_context_interrupt, 0, 0, VIAL_VERB_CONTEXT_INTERRUPT },
	{ "POST", CONTEXT "/restart", vial_api_context_restart, 0, 0, VIAL_VERB_CONTEXT_RESTART },
	{ "POST", CONTEXT "/run", vial_api_run, 0, LARGE, VIAL_VERB_RUN },
	{ "POST", CONTEXT "/run/stream", vial_api_run_stream, 0, LARGE, VIAL_VERB_RUN },
};

/* Public: it takes a token besides the key, and judges both itself. */
const VialRoute vial_host_route = { "ANY", "/", vial_api_port_preview, PROXY | VIAL_ROUTE_PUBLIC, 0, VIAL_VERB_TUNNEL };

const VialRouteTable vial_native_table = { .name = "native", .routes = routes, .n_routes = G_N_ELEMENTS(routes) };
