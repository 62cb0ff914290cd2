/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of an agent: the routes that a sandbox has, behind one more step. The sandbox of the call's session is found or made, then the request goes
 * to the ordinary handler as if it had named that sandbox. Code and commands name their session in the body, files in the query. What a sandbox's
 * route calls `user`, the one who runs it inside, is `run_as` here: `user` is whom the call is for.
 */
#include "operations/agents.h"
#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"

typedef struct {
	VialRequest *request;
	VialHandler handler;
} Call;

static void on_opened(const VialAgentPlace *place, const GError *error, gpointer data)
{
	g_autofree Call *call = data;
	VialRequest *request = call->request;

	if (error) {
		vial_request_reply_error(request, g_error_copy(error));
	} else if (!vial_request_is_gone(request)) { /* what nobody waits for is not begun */
		vial_surface_enter(request, place);
		call->handler(request);
	}
	vial_request_unref(request);
}

static gboolean decode_body(VialRequest *request, VialAgentCall *out, GError **error)
{
	const json_t *body = vial_request_json(request);

	return vial_decode_text(body, "session", &out->session, error) && vial_decode_text(body, "user", &out->user, error) &&
	       vial_decode_int(body, "version", &out->version, error) && (!out->is_code || vial_decode_text(body, "language", &out->language, error));
}

static gboolean decode_query(VialRequest *request, VialAgentCall *out, GError **error)
{
	out->session = vial_request_query(request, "session");
	out->user = vial_request_query(request, "user");
	return vial_decode_query_int(request, "version", &out->version, error);
}

static void open_for(VialRequest *request, VialVerb verb, gboolean is_in_body, VialHandler handler)
{
	VialCaller caller = vial_surface_caller(request);
	VialAgentCall call = { .agent = vial_request_param(request, "agent"), .version = VIAL_UNSAID, .is_code = verb == VIAL_VERB_RUN };
	g_autoptr(GError) error = NULL;
	Call *waiting;

	waiting = g_new0(Call, 1);
	*waiting = (Call){ .request = vial_request_ref(request), .handler = handler };
	if ((is_in_body ? decode_body(request, &call, &error) : decode_query(request, &call, &error)) &&
	    vial_op_agent_open(&caller, verb, &call, on_opened, waiting, &error))
		return;
	g_free(waiting);
	vial_request_reply_error(request, g_steal_pointer(&error));
	vial_request_unref(request);
}

#define CALL(name, verb, is_in_body, handler)                 \
	void vial_api_agent_##name(VialRequest *request)      \
	{                                                     \
		open_for(request, verb, is_in_body, handler); \
	}

CALL(run, VIAL_VERB_RUN, TRUE, vial_api_run)
CALL(run_stream, VIAL_VERB_RUN, TRUE, vial_api_run_stream)
CALL(exec, VIAL_VERB_EXEC, TRUE, vial_api_exec)
CALL(exec_stream, VIAL_VERB_EXEC, TRUE, vial_api_exec_stream)
CALL(file_read, VIAL_VERB_FILE_READ, FALSE, vial_api_file_read)
CALL(file_write, VIAL_VERB_FILE_WRITE, FALSE, vial_api_file_write)
CALL(file_remove, VIAL_VERB_FILE_REMOVE, FALSE, vial_api_file_remove)
CALL(file_list, VIAL_VERB_FILE_LIST, FALSE, vial_api_file_list)
CALL(file_stat, VIAL_VERB_FILE_LIST, FALSE, vial_api_file_stat)
CALL(file_mkdir, VIAL_VERB_FILE_MKDIR, FALSE, vial_api_file_mkdir)
CALL(file_move, VIAL_VERB_FILE_MOVE, FALSE, vial_api_file_move)
CALL(file_watch, VIAL_VERB_FILE_LIST, FALSE, vial_api_file_watch)
