/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B's data plane: what the SDKs ask of a sandbox itself. There it is two servers in the sandbox, "envd" on port 49983 (processes, files) and the
 * code interpreter on port 49999; here it is us. Which sandbox and port a request means is in its headers E2b-Sandbox-Id and E2b-Sandbox-Port, or in
 * the name of its host, {port}-{id}.DOMAIN; a signed address of a file has neither, and is found by its signature.
 *
 * The routes are public, since no key is sent: every handler begins with vial_e2b_enter().
 */
#pragma once

#include "surfaces/e2b/connect.h"
#include "surfaces/shared/surface.h"

#define VIAL_E2B_ENVD_PORT 49983
#define VIAL_E2B_CODE_PORT 49999

/* Whether a request is for the sandbox's own servers, or for another port of it. */
gboolean vial_e2b_claims_servers(const VialRequest *request);
gboolean vial_e2b_claims_ports(const VialRequest *request);

/* What lets somebody in: a key always does. */
typedef enum {
	VIAL_E2B_BY_TOKEN,     /* X-Access-Token */
	VIAL_E2B_BY_TRAFFIC,   /* or E2B-Traffic-Access-Token */
	VIAL_E2B_BY_SIGNATURE, /* or a signed address */
} VialE2bWay;

/* FALSE: it has been answered, because there is no such sandbox or whoever asks may not. Else vial_surface_caller() and vial_surface_sandbox() say.
 */
gboolean vial_e2b_enter(VialRequest *request, VialE2bWay way);
/* Before a body is taken: whether any door opens; which one it has to be, the handler knows. */
gboolean vial_e2b_takes_body(VialRequest *request);
/* The same without asking who: whether there is such a sandbox, borrowed. */
VialSandbox *vial_e2b_look(VialRequest *request);
/* Of a request that vial_e2b_claims_ports(). */
unsigned vial_e2b_port_of(const VialRequest *request);
/* The answer of every call when the sandbox has ended. */
void vial_e2b_reply_gone(VialRequest *request);
/* An operation failed because its sandbox is gone: nobody is told anything else then. */
gboolean vial_e2b_is_gone(VialRequest *request);

/* An error of this table, in the words of Connect or of plain HTTP. */
json_t *vial_e2b_data_error_body(const VialRequest *request, unsigned status, const GError *error);
/* The ways to say so of an answer, a question (vial_surface_question()) that was refused, an exchange; `error` is borrowed. */
void vial_e2b_reply_error(VialRequest *request, const GError *error);
void vial_e2b_begun(VialRequest *request, gboolean is_begun, GError **error);
void vial_e2b_exchange_fail(VialExchange *exchange, const GError *error);
/* As vial_exchange_begin(), in these words. */
void vial_e2b_exchange_begin(VialExchange *exchange, VialOperation *operation, GError **error);
/* The end of a Connect stream, well or badly: a sandbox that has gone breaks the connection off instead, by which the clients tell. */
void vial_e2b_stream_end(VialConnect *connect, const GError *error);

/* A VialDocumentDone: {}; `data` is the request, whose reference is dropped. */
void vial_e2b_reply_empty_message(json_t *document, const GError *error, gpointer data);

/* Who acts: the name in "Authorization: Basic", which is not about who may; NULL: nobody said. Free it. */
char *vial_e2b_user(const VialRequest *request);
/* A path as this dialect means it, from the user's home: free it. */
char *vial_e2b_path(const char *user, const char *path);

/* Handlers: envd's processes */
void vial_e2b_process_start(VialRequest *request);
void vial_e2b_process_connect(VialRequest *request);
void vial_e2b_process_list(VialRequest *request);
void vial_e2b_process_update(VialRequest *request);
void vial_e2b_process_send_input(VialRequest *request);
void vial_e2b_process_stream_input(VialRequest *request);
void vial_e2b_process_send_signal(VialRequest *request);
void vial_e2b_process_close_stdin(VialRequest *request);

/* envd's files */
void vial_e2b_file_stat(VialRequest *request);
void vial_e2b_file_make_dir(VialRequest *request);
void vial_e2b_file_move(VialRequest *request);
void vial_e2b_file_list_dir(VialRequest *request);
void vial_e2b_file_remove(VialRequest *request);
void vial_e2b_file_watch_dir(VialRequest *request);
void vial_e2b_watcher_create(VialRequest *request);
void vial_e2b_watcher_events(VialRequest *request);
void vial_e2b_watcher_remove(VialRequest *request);
void vial_e2b_file_download(VialRequest *request);
void vial_e2b_file_upload(VialRequest *request);

/* envd itself */
void vial_e2b_health(VialRequest *request);
void vial_e2b_envd_metrics(VialRequest *request);
void vial_e2b_envs(VialRequest *request);

/* The code interpreter */
void vial_e2b_execute(VialRequest *request);
void vial_e2b_context_create(VialRequest *request);
void vial_e2b_context_list(VialRequest *request);
void vial_e2b_context_restart(VialRequest *request);
void vial_e2b_context_delete(VialRequest *request);

/* Any other port */
void vial_e2b_port(VialRequest *request);
