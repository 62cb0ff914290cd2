/* SPDX-License-Identifier: Apache-2.0 */
#include "api/guest.h"

#include <string.h>

#include "service/app.h"

#define QUESTION_TIMEOUT_MS 60000
#define MAX_PATH_BYTES 4096
#define MAX_USER_BYTES 64

VialSandbox *vial_guest_sandbox(VialRequest *request)
{
	g_autoptr(GError) error = NULL;
	VialSandbox *sandbox = vial_sandboxes_find(vial_request_app(request), vial_request_identity(request),
	                                           vial_request_param(request, "id"), &error);

	if (!sandbox)
		vial_request_reply_error(request, g_steal_pointer(&error));
	return sandbox;
}

void vial_session_end(VialSession *session)
{
	vial_request_on_gone(session->request, NULL, NULL);
	vial_stream_free(session->stream);
	json_decref(session->open);
	if (session->free_state)
		session->free_state(session->state);
	if (session->sandbox)
		vial_sandbox_release(session->sandbox);
	vial_request_unref(session->request);
	g_free(session);
}

void vial_session_fail(VialSession *session, const GError *error)
{
	vial_request_reply_error(session->request, g_error_copy(error));
	vial_session_end(session);
}

static void on_gone(VialRequest *request, gpointer data)
{
	VialSession *session = data;

	/* Not acquired yet: the acquisition's own callback ends the session. */
	if (session->sandbox)
		vial_session_end(session);
	else
		g_clear_pointer(&session->open, json_decref);
}

static void on_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	VialSession *session = data;

	if (error)
		return vial_session_fail(session, error);
	session->sandbox = sandbox;
	if (!session->open) /* the client left while it was being woken */
		return vial_session_end(session);
	session->stream = vial_stream_open(vial_sandbox_channel(sandbox), g_steal_pointer(&session->open), &session->events, session);
	if (session->opened)
		session->opened(session);
}

void vial_session_start(VialRequest *request, json_t *open, const VialStreamEvents *events,
                        void (*opened)(VialSession *session), gpointer state, GDestroyNotify free_state)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);
	VialSession *session;

	if (!sandbox) {
		json_decref(open);
		if (free_state)
			free_state(state);
		return;
	}
	session = g_new0(VialSession, 1);
	session->request = vial_request_ref(request);
	session->open = open;
	session->events = *events;
	session->opened = opened;
	session->state = state;
	session->free_state = free_state;
	vial_request_on_gone(request, on_gone, session);
	vial_sandbox_acquire(sandbox, on_acquired, session);
}

/* Questions */

typedef struct {
	VialRequest *request;
	VialSandbox *sandbox;
	json_t *question;
	VialReply reply;
} Question;

static void question_free(Question *question)
{
	json_decref(question->question);
	vial_request_unref(question->request);
	if (question->sandbox)
		vial_sandbox_release(question->sandbox);
	g_free(question);
}

static void on_answer(json_t *result, const GError *error, gpointer data)
{
	Question *question = data;

	if (error)
		vial_request_reply_error(question->request, g_error_copy(error));
	else
		question->reply(question->request, result);
	question_free(question);
}

static void on_ask_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Question *question = data;

	if (error) {
		vial_request_reply_error(question->request, g_error_copy(error));
		return question_free(question);
	}
	question->sandbox = sandbox;
	vial_channel_call(vial_sandbox_channel(sandbox), g_steal_pointer(&question->question), QUESTION_TIMEOUT_MS, on_answer, question);
}

void vial_guest_ask(VialRequest *request, json_t *json, VialReply reply)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);
	Question *question;

	if (!sandbox) {
		json_decref(json);
		return;
	}
	question = g_new0(Question, 1);
	question->request = vial_request_ref(request);
	question->question = json;
	question->reply = reply;
	vial_sandbox_acquire(sandbox, on_ask_acquired, question);
}

typedef struct {
	VialRequest *request;
	json_t *answer;
} Stored;

static void on_stored(const GError *error, gpointer data)
{
	g_autofree Stored *stored = data;
	g_autoptr(VialRequest) request = stored->request;

	if (!error)
		return vial_request_reply_json(request, 200, stored->answer);
	json_decref(stored->answer);
	vial_request_reply_error(request, g_error_copy(error));
}

void vial_guest_store_and_reply(VialRequest *request, VialSandbox *sandbox, json_t *answer)
{
	Stored *stored = g_new0(Stored, 1);

	*stored = (Stored){ vial_request_ref(request), answer };
	vial_sandbox_store_then(sandbox, on_stored, stored);
}

gboolean vial_guest_add_path(json_t *question, const char *field, const char *path, GError **error)
{
	if (!path || !*path)
		return vial_fail(error, VIAL_ERROR_INVALID, "%s is missing", field);
	if (strlen(path) > MAX_PATH_BYTES)
		return vial_fail(error, VIAL_ERROR_INVALID, "%s is longer than %d bytes", field, MAX_PATH_BYTES);
	json_object_set_new(question, field, json_string(path));
	return TRUE;
}

gboolean vial_guest_add_user(json_t *question, const char *user, GError **error)
{
	if (!user)
		return TRUE;
	if (!*user || strlen(user) > MAX_USER_BYTES)
		return vial_fail(error, VIAL_ERROR_INVALID, "user must be a name or a number of 1 to %d characters", MAX_USER_BYTES);
	json_object_set_new(question, "user", json_string(user));
	return TRUE;
}
