/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/shared/surface.h"

#include <string.h>

#include "surfaces/shared/podflare.h"
#include "util/json.h"

VialApp *vial_surface_app(const VialRequest *request)
{
	const VialFront *native = vial_request_app(request);

	return native->app;
}

/* Where it comes from */

typedef struct {
	VialOrigin origin;
	json_t *model_call; /* of the header; else it is the body's */
	GError *problem;
	/* Of an agent's call, once it has its sandbox. */
	char *sandbox_id, *language;
	json_t *session;
} Note;

static void note_free(gpointer data)
{
	Note *note = data;

	json_decref(note->model_call);
	g_clear_error(&note->problem);
	g_free(note->sandbox_id);
	g_free(note->language);
	json_decref(note->session);
	g_free(note);
}

/* The model call: in the body, or in a header for requests that have none of ours. */
static void read_model_call(VialRequest *request, Note *note)
{
	const char *header = vial_request_header(request, "X-Vial-Origin");
	json_t *call = json_object_get(vial_request_json(request), "origin");

	if (!call && header) {
		call = note->model_call = vial_json_parse_object(header, strlen(header), &note->problem);
		if (note->problem)
			g_prefix_error(&note->problem, "the header X-Vial-Origin: ");
	}
	if (!note->problem && vial_origin_check_call(call, &note->problem) && json_object_size(call) > 0)
		note->origin.model_call = call;
	note->origin.problem = note->problem;
}

/*
 * PandaStack's SDK speaks the native API, so it is known by what it says of itself, or where it says nothing (its JavaScript) by its key's form; so
 * is Podflare's, or by what no other says. Previews have no table: who opens one is the native API's guest.
 */
static const char *surface_of(const VialRequest *request)
{
	const VialRouteTable *table = vial_request_table(request);
	const char *agent = vial_request_header(request, "User-Agent"), *key = vial_request_key(request);

	if (table && strcmp(table->name, "native") != 0)
		return table->name;
	if (table && vial_podflare_speaks(request))
		return "podflare";
	return (agent && g_str_has_prefix(agent, "pandastack-")) || (key && g_str_has_prefix(key, "pds_")) ? "pandastack" : "native";
}

gboolean vial_surface_is_pandastack(const VialRequest *request)
{
	return strcmp(surface_of(request), "pandastack") == 0;
}

static const VialOrigin *origin_of(VialRequest *request)
{
	Note *note = vial_request_note(request);

	if (note)
		return &note->origin;
	note = g_new0(Note, 1);
	note->origin = (VialOrigin){
		.surface = surface_of(request),
		.request_id = vial_request_id(request),
		.peer = vial_request_peer(request),
		.trace_id = vial_request_trace_id(request),
		.parent_span_id = vial_request_parent_span(request),
	};
	read_model_call(request, note);
	vial_request_set_note(request, note, note_free);
	return &note->origin;
}

VialCaller vial_surface_caller(VialRequest *request)
{
	return (VialCaller){ .app = vial_surface_app(request), .principal = vial_request_identity(request), .origin = origin_of(request) };
}

const char *vial_surface_sandbox(const VialRequest *request)
{
	const Note *note = vial_request_note(request);

	return note && note->sandbox_id ? note->sandbox_id : vial_request_param(request, "id");
}

void vial_surface_set_sandbox(VialRequest *request, const char *sandbox_id)
{
	Note *note;

	origin_of(request); /* whose note it is */
	note = vial_request_note(request);
	g_free(note->sandbox_id);
	note->sandbox_id = g_strdup(sandbox_id);
}

/* Calls of agents */

void vial_surface_enter(VialRequest *request, const VialAgentPlace *place)
{
	Note *note;
	g_autofree char *text = NULL;

	origin_of(request); /* whose note it is */
	note = vial_request_note(request);
	note->sandbox_id = g_strdup(vial_sandbox_id(place->sandbox));
	note->language = g_strdup(place->language);
	note->session =
		json_pack("{s:s, s:s, s:I, s:s*, s:s, s:b, s:s*}", "id", place->session, "agent", place->agent, "version", (json_int_t)place->version,
	                  "user", place->user, "sandbox_id", note->sandbox_id, "fresh", place->is_fresh, "lost", place->lost);
	text = json_dumps(note->session, JSON_COMPACT | JSON_ENSURE_ASCII);
	vial_request_set_header(request, "X-Vial-Session", text);
}

json_t *vial_surface_session(const VialRequest *request)
{
	const Note *note = vial_request_note(request);

	return note ? note->session : NULL;
}

void vial_surface_tell_session(const VialRequest *request, json_t *answer)
{
	json_t *session = vial_surface_session(request);

	if (session)
		json_object_set(answer, "session", session);
}

const char *vial_surface_language(const VialRequest *request)
{
	const Note *note = vial_request_note(request);

	return note ? note->language : NULL;
}

const char *vial_surface_user_field(const VialRequest *request)
{
	return vial_surface_session(request) ? "run_as" : "user";
}

/* Questions */

VialCaller vial_surface_question(VialRequest *request)
{
	return vial_surface_caller(vial_request_ref(request));
}

void vial_surface_begun(VialRequest *request, gboolean is_begun, GError **error)
{
	if (is_begun)
		return;
	vial_request_reply_error(request, g_steal_pointer(error));
	vial_request_unref(request);
}

static void reply(VialRequest *request, unsigned status, json_t *document, const GError *error)
{
	if (error)
		vial_request_reply_error(request, g_error_copy(error));
	else if (document)
		vial_request_reply_json(request, status, json_incref(document));
	else
		vial_request_reply_empty(request, status);
	vial_request_unref(request);
}

void vial_surface_reply_ok(json_t *document, const GError *error, gpointer data)
{
	reply(data, 200, document, error);
}

void vial_surface_reply_created(json_t *document, const GError *error, gpointer data)
{
	reply(data, 201, document, error);
}

void vial_surface_reply_accepted(json_t *document, const GError *error, gpointer data)
{
	reply(data, 202, document, error);
}

void vial_surface_reply_nothing(json_t *document, const GError *error, gpointer data)
{
	reply(data, 204, NULL, error);
}

void vial_surface_reply_done(const GError *error, gpointer data)
{
	reply(data, 204, NULL, error);
}

void vial_surface_reply_now(VialRequest *request, json_t *document, GError *error)
{
	if (document)
		vial_request_reply_json(request, 200, document);
	else
		vial_request_reply_error(request, error);
}

/* Conversations */

VialExchange *vial_exchange_new(VialRequest *request, gpointer state, GDestroyNotify free_state)
{
	VialExchange *exchange = g_new0(VialExchange, 1);

	*exchange = (VialExchange){ .request = vial_request_ref(request), .state = state, .free_state = free_state };
	return exchange;
}

void vial_exchange_end(VialExchange *exchange)
{
	vial_request_on_gone(exchange->request, NULL, NULL);
	if (exchange->free_state)
		exchange->free_state(exchange->state);
	vial_request_unref(exchange->request);
	g_free(exchange);
}

void vial_exchange_fail(VialExchange *exchange, const GError *error)
{
	vial_request_reply_error(exchange->request, g_error_copy(error));
	vial_exchange_end(exchange);
}

gboolean vial_exchange_fail_early(VialExchange *exchange, const GError *error)
{
	if (!error || exchange->is_streaming)
		return FALSE;
	vial_exchange_fail(exchange, error);
	return TRUE;
}

static void on_gone(VialRequest *request, gpointer data)
{
	VialExchange *exchange = data;

	vial_operation_cancel(exchange->operation);
	vial_exchange_end(exchange);
}

void vial_exchange_begin(VialExchange *exchange, VialOperation *operation, GError **error)
{
	g_autoptr(GError) refusal = operation ? NULL : g_steal_pointer(error);

	if (!operation)
		return vial_exchange_fail(exchange, refusal);
	exchange->operation = operation;
	vial_request_on_gone(exchange->request, on_gone, exchange);
}

void vial_exchange_drained(VialRequest *request, gpointer data)
{
	VialExchange *exchange = data;

	vial_operation_drained(exchange->operation);
}

void vial_exchange_sse_begin(VialOperation *operation, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = operation;
	exchange->is_streaming = TRUE;
	vial_request_sse_begin(exchange->request, vial_exchange_drained, exchange);
	if (vial_surface_session(exchange->request))
		vial_exchange_send(exchange, "session", json_incref(vial_surface_session(exchange->request)));
}

gboolean vial_exchange_send(VialExchange *exchange, const char *event, json_t *data)
{
	return vial_request_sse_send(exchange->request, event, data) > VIAL_BODY_HIGH_BYTES;
}
