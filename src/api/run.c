/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code in a context: POST …/run on a language's default context and …/repl/sessions/{sid}/run on a given one, collected
 * or streamed. The execution id is the call's id, so the record, the answer and the guest speak of the same thing.
 */
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "service/calls.h"
#include "util/ansi.h"
#include "util/json.h"
#include "util/utf8.h"
#include "wire/wire.h"

#define MAX_CODE_BYTES (200 * 1024) /* what one OPEN frame carries, with the JSON around it */
#define MAX_TIMEOUT_MS (7LL * 24 * 3600 * 1000)
#define COLLECT_LIMIT_BYTES (1024 * 1024)
#define STREAM_LIMIT_BYTES (64 * 1024 * 1024)

typedef struct {
	gboolean is_stream;
	gboolean is_raw; /* control sequences are wanted */
	VialOutput output[2];
	VialUtf8 utf8[2];
	VialAnsi ansi[2];
	gsize unacknowledged;
	json_t *results;
	json_t *error; /* the agent's error event */
	VialCall *call;
} Run;

static void run_free(gpointer data)
{
	Run *run = data;

	if (run->call)
		vial_call_end(run->call, "cancelled", NULL);
	vial_output_clear(&run->output[0]);
	vial_output_clear(&run->output[1]);
	json_decref(run->results);
	json_decref(run->error);
	g_free(run);
}

static void on_drained(VialRequest *request, gpointer data)
{
	VialSession *session = data;
	Run *run = session->state;

	vial_stream_consumed(session->stream, run->unacknowledged);
	run->unacknowledged = 0;
}

static void send_event(VialSession *session, const char *name, json_t *event)
{
	if (vial_request_sse_send(session->request, name, event) < VIAL_BODY_HIGH_BYTES)
		on_drained(session->request, session);
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	VialSession *session = data;
	Run *run = session->state;
	unsigned index = channel == VIAL_WIRE_STDERR;
	gsize size;
	const void *content = g_bytes_get_data(bytes, &size);
	g_autoptr(GString) text = NULL;

	vial_call_output(run->call, index ? VIAL_JOURNAL_STDERR : VIAL_JOURNAL_STDOUT, content, size);
	run->unacknowledged += size;
	if (!run->is_stream) {
		vial_output_add(&run->output[index], content, size);
		return on_drained(session->request, session);
	}
	text = g_string_sized_new(size);
	vial_utf8_feed(&run->utf8[index], content, size, text);
	if (!run->is_raw)
		vial_ansi_strip(&run->ansi[index], text);
	if (text->len == 0)
		return on_drained(session->request, session);
	send_event(session, index ? "stderr" : "stdout", json_pack("{s:s%}", "chunk", text->str, text->len));
}

/* What a model reads holds no control sequences, unless the caller asked for them. */
static void clean_field(const Run *run, json_t *object, const char *field)
{
	g_autofree char *clean = run->is_raw ? NULL : vial_ansi_clean(json_string_value(json_object_get(object, field)));

	if (clean)
		json_object_set_new(object, field, json_string(clean));
}

static void take_result(VialSession *session, json_t *event)
{
	Run *run = session->state;
	json_t *bundle = json_object_get(event, "data");

	if (!json_is_object(bundle))
		return;
	clean_field(run, bundle, "text/plain");
	if (!run->is_stream) {
		json_array_append(run->results, bundle);
		return;
	}
	bundle = json_copy(bundle);
	json_object_set_new(bundle, "is_main_result", json_boolean(json_is_true(json_object_get(event, "is_main_result"))));
	send_event(session, "result", bundle);
}

static void take_error(VialSession *session, json_t *event)
{
	Run *run = session->state;
	json_t *shown = json_pack("{s:O?, s:O?, s:O?}", "error_name", json_object_get(event, "name"), "error_value",
	                          json_object_get(event, "value"), "error", json_object_get(event, "traceback"));

	clean_field(run, shown, "error_name");
	clean_field(run, shown, "error_value");
	clean_field(run, shown, "error");
	json_decref(run->error);
	run->error = json_incref(shown);
	if (run->is_stream)
		send_event(session, "error", shown);
	else
		json_decref(shown);
}

static void on_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	VialSession *session = data;
	Run *run = session->state;
	const char *name = json_string_value(json_object_get(event, "event"));

	run->unacknowledged += size;
	if (name && strcmp(name, "result") == 0)
		take_result(session, event);
	else if (name && strcmp(name, "error") == 0)
		take_error(session, event);
	if (!run->is_stream)
		on_drained(session->request, session);
}

/* The fields that both forms end with: the CLOSE's, the error's, and exit_code. */
static json_t *ending(Run *run, json_t *result)
{
	json_t *answer = json_object();

	json_object_update(answer, result);
	json_object_del(answer, "ok");
	json_object_del(answer, "status");
	if (run->error)
		json_object_update(answer, run->error);
	json_object_set_new(answer, "exit_code", json_integer(run->error ? 1 : 0));
	if (!json_object_get(answer, "files"))
		json_object_set_new(answer, "files", json_array());
	return answer;
}

static json_t *collected(Run *run, json_t *result)
{
	json_t *answer = ending(run, result);

	for (guint i = 0; i < G_N_ELEMENTS(run->output); i++) {
		vial_output_finish(&run->output[i]);
		if (!run->is_raw)
			vial_ansi_strip(&run->ansi[i], run->output[i].text);
	}
	json_object_set_new(answer, "stdout", json_stringn(run->output[0].text->str, run->output[0].text->len));
	json_object_set_new(answer, "stderr", json_stringn(run->output[1].text->str, run->output[1].text->len));
	json_object_set(answer, "results", run->results);
	if (run->output[0].is_truncated || run->output[1].is_truncated)
		json_object_set_new(answer, "truncated", json_true());
	return answer;
}

static void end_call(Run *run, json_t *result, const GError *error)
{
	json_t *outcome;

	if (!run->call)
		return;
	if (error)
		outcome = json_pack("{s:s}", "error", error->message);
	else
		outcome = ending(run, result);
	/* Tracebacks and file lists belong to the answer, not to the record. */
	json_object_del(outcome, "files");
	if (!error)
		json_object_del(outcome, "error");
	vial_call_end(g_steal_pointer(&run->call), error ? "failed" : run->error ? "error" : "done", outcome);
}

static void on_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialSession *session = data;
	Run *run = session->state;

	end_call(run, result, error);
	if (error && !run->is_stream)
		return vial_session_fail(session, error);
	if (!run->is_stream) {
		vial_request_reply_json(session->request, 200, collected(run, result));
	} else {
		if (error)
			vial_request_sse_send(session->request, "error", json_pack("{s:s, s:s}", "error_name", "Unavailable", "error", error->message));
		vial_request_sse_send(session->request, "end", error ? json_pack("{s:i}", "exit_code", 1) : ending(run, result));
		vial_request_stream_end(session->request);
	}
	vial_session_end(session);
}

static void on_stream_opened(VialSession *session)
{
	vial_request_sse_begin(session->request, on_drained, session);
}

/* Reads the body; `sid` is the context, or NULL for the default one of the body's language. */
static json_t *read_run(json_t *body, const char *sid, gboolean is_stream, GError **error)
{
	g_autoptr(json_t) open = json_pack("{s:s}", "op", "ctx.run");
	const char *code = NULL, *language = NULL;
	gint64 timeout_ms = 0, max_output = is_stream ? STREAM_LIMIT_BYTES : COLLECT_LIMIT_BYTES;
	gboolean raw_ansi = FALSE;
	json_t *env = NULL;

	if (!vial_json_get_string(body, "code", VIAL_JSON_REQUIRED, MAX_CODE_BYTES, &code, error) ||
	    !vial_json_get_string(body, "language", VIAL_JSON_NONEMPTY, 32, &language, error) ||
	    !vial_json_get_int(body, "timeout_ms", 0, 0, MAX_TIMEOUT_MS, &timeout_ms, error) ||
	    !vial_json_get_int(body, "max_output_bytes", 0, 0, STREAM_LIMIT_BYTES, &max_output, error) ||
	    !vial_json_get_bool(body, "raw_ansi", 0, &raw_ansi, error) ||
	    !vial_json_get_string_map(body, "env", 0, 256, 256, 32 * 1024, &env, error) || !vial_env_check_names(env, error))
		return NULL;
	json_object_set_new(open, "code", json_stringn(code, json_string_length(json_object_get(body, "code"))));
	if (sid)
		json_object_set_new(open, "id", json_string(sid));
	else
		json_object_set_new(open, "language", json_string(language ? language : "python"));
	if (timeout_ms > 0)
		json_object_set_new(open, "timeout_ms", json_integer(timeout_ms));
	json_object_set_new(open, "max_output_bytes", json_integer(max_output));
	if (raw_ansi)
		json_object_set_new(open, "raw_ansi", json_true());
	if (env)
		json_object_set(open, "env", env);
	return g_steal_pointer(&open);
}

static void run_start(VialRequest *request, gboolean is_stream)
{
	static const VialStreamEvents events = { .data = on_data, .event = on_event, .closed = on_closed };
	VialSandbox *sandbox = vial_guest_sandbox(request);
	g_autoptr(GError) error = NULL;
	json_t *open;
	Run *run;

	if (!sandbox)
		return;
	open = read_run(vial_request_json(request), vial_request_param(request, "sid"), is_stream, &error);
	if (!open) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	run = g_new0(Run, 1);
	run->is_stream = is_stream;
	run->is_raw = json_is_true(json_object_get(open, "raw_ansi"));
	run->results = json_array();
	vial_output_init(&run->output[0], STREAM_LIMIT_BYTES);
	vial_output_init(&run->output[1], STREAM_LIMIT_BYTES);
	run->call = vial_call_begin(sandbox, "run", json_pack("{s:O, s:O*, s:O*}", "code", json_object_get(open, "code"), "language",
	                                                      json_object_get(open, "language"), "context", json_object_get(open, "id")));
	json_object_set_new(open, "execution_id", json_string(vial_call_id(run->call)));
	vial_session_start(request, open, &events, is_stream ? on_stream_opened : NULL, run, run_free);
}

void vial_api_run(VialRequest *request)
{
	run_start(request, FALSE);
}

void vial_api_run_stream(VialRequest *request)
{
	run_start(request, TRUE);
}
