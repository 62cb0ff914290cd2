/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's data plane at a glance. All is public: handlers look at the sandbox's token for themselves (data_enter.c). */
#include "operations/limits.h"
#include "operations/verbs.h"
#include "surfaces/e2b/data.h"
#include "surfaces/e2b/routes.h"

#define PROCESS "/process.Process/"
#define FILESYSTEM "/filesystem.Filesystem/"

#define CALL VIAL_ROUTE_PUBLIC
#define STREAM (VIAL_ROUTE_PUBLIC | VIAL_ROUTE_RAW_BODY)
#define BODY (VIAL_ROUTE_PUBLIC | VIAL_ROUTE_STREAM_BODY)

static const VialRoute routes[] = {
	/* processes */
	{ "POST", PROCESS "Start", vial_e2b_process_start, STREAM, VIAL_REQUEST_MAX_BYTES, VIAL_VERB_EXEC },
	{ "POST", PROCESS "Connect", vial_e2b_process_connect, STREAM, 0, VIAL_VERB_PROCESS_READ },
	{ "POST", PROCESS "List", vial_e2b_process_list, CALL, 0, VIAL_VERB_PROCESS_READ },
	{ "POST", PROCESS "Update", vial_e2b_process_update, CALL, 0, VIAL_VERB_TERMINAL_RESIZE },
	{ "POST", PROCESS "SendInput", vial_e2b_process_send_input, CALL, VIAL_REQUEST_MAX_BYTES, VIAL_VERB_PROCESS_INPUT },
	{ "POST", PROCESS "StreamInput", vial_e2b_process_stream_input, BODY, 0, VIAL_VERB_PROCESS_INPUT },
	{ "POST", PROCESS "SendSignal", vial_e2b_process_send_signal, CALL, 0, VIAL_VERB_PROCESS_SIGNAL },
	{ "POST", PROCESS "CloseStdin", vial_e2b_process_close_stdin, CALL, 0, VIAL_VERB_PROCESS_INPUT },

	/* files */
	{ "POST", FILESYSTEM "Stat", vial_e2b_file_stat, CALL, 0, VIAL_VERB_FILE_LIST },
	{ "POST", FILESYSTEM "MakeDir", vial_e2b_file_make_dir, CALL, 0, VIAL_VERB_FILE_MKDIR },
	{ "POST", FILESYSTEM "Move", vial_e2b_file_move, CALL, 0, VIAL_VERB_FILE_MOVE },
	{ "POST", FILESYSTEM "ListDir", vial_e2b_file_list_dir, CALL, 0, VIAL_VERB_FILE_LIST },
	{ "POST", FILESYSTEM "Remove", vial_e2b_file_remove, CALL, 0, VIAL_VERB_FILE_REMOVE },
	{ "POST", FILESYSTEM "WatchDir", vial_e2b_file_watch_dir, STREAM, 0, VIAL_VERB_FILE_LIST },
	{ "POST", FILESYSTEM "CreateWatcher", vial_e2b_watcher_create, CALL, 0, VIAL_VERB_FILE_LIST },
	{ "POST", FILESYSTEM "GetWatcherEvents", vial_e2b_watcher_events, CALL, 0, VIAL_VERB_FILE_LIST },
	{ "POST", FILESYSTEM "RemoveWatcher", vial_e2b_watcher_remove, CALL, 0, VIAL_VERB_FILE_LIST },
	{ "GET", "/files", vial_e2b_file_download, CALL, 0, VIAL_VERB_FILE_READ },
	{ "POST", "/files", vial_e2b_file_upload, BODY, 0, VIAL_VERB_FILE_WRITE },

	/* envd itself */
	{ "GET", "/health", vial_e2b_health, CALL, 0, VIAL_VERB_SANDBOX_READ },
	{ "GET", "/metrics", vial_e2b_envd_metrics, CALL, 0, VIAL_VERB_METRICS },
	{ "GET", "/envs", vial_e2b_envs, CALL, 0, VIAL_VERB_EXEC },

	/* the code interpreter */
	{ "POST", "/execute", vial_e2b_execute, CALL, VIAL_REQUEST_MAX_BYTES, VIAL_VERB_RUN },
	{ "POST", "/contexts", vial_e2b_context_create, CALL, 0, VIAL_VERB_CONTEXT_CREATE },
	{ "GET", "/contexts", vial_e2b_context_list, CALL, 0, VIAL_VERB_CONTEXT_READ },
	{ "POST", "/contexts/{context}/restart", vial_e2b_context_restart, CALL, 0, VIAL_VERB_CONTEXT_RESTART },
	{ "DELETE", "/contexts/{context}", vial_e2b_context_delete, CALL, 0, VIAL_VERB_CONTEXT_DELETE },
};

const VialRouteTable vial_e2b_data_table = { .name = "e2b",
	                                     .routes = routes,
	                                     .n_routes = G_N_ELEMENTS(routes),
	                                     .claims = vial_e2b_claims_servers,
	                                     .takes_body = vial_e2b_takes_body,
	                                     .error_body = vial_e2b_data_error_body };

static const VialRoute port_routes[] = {
	{ "ANY", "/{path...}", vial_e2b_port, BODY | VIAL_ROUTE_ANY_METHOD, 0, VIAL_VERB_TUNNEL },
};

const VialRouteTable vial_e2b_port_table = { .name = "e2b",
	                                     .routes = port_routes,
	                                     .n_routes = G_N_ELEMENTS(port_routes),
	                                     .claims = vial_e2b_claims_ports,
	                                     .error_body = vial_e2b_data_error_body };
