/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST …/exec and …/exec/stream: one command, its output collected or streamed as server-sent events. GET …/processes/{pid}/attach: the same
 * events of one that runs already.
 */
#include "operations/exec.h"

#include "operations/limits.h"
#include "operations/surface_user.h"
#include "surfaces/native/handlers.h"
#include "surfaces/podflare/handlers.h"
#include "surfaces/shared/pandastack.h"
#include "surfaces/shared/podflare.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"
#include "util/utf8.h"

static const char *const stream_names[] = { [VIAL_OUTPUT_STDOUT] = "stdout", [VIAL_OUTPUT_STDERR] = "stderr" };

static gboolean decode(VialRequest *request, VialExecRequest *out, const char **out_encoding, GError **error)
{
	const json_t *body = vial_request_json(request);
	VialCaller caller = vial_surface_caller(request);

	*out = (VialExecRequest){ .user = vial_surface_user(&caller) };
	return vial_decode_text(body, "cmd", &out->cmd, error) && vial_decode_list(body, "argv", &out->argv, error) &&
	       vial_decode_text(body, "cwd", &out->cwd, error) && vial_decode_text(body, vial_surface_user_field(request), &out->user, error) &&
	       vial_decode_object(body, "env", &out->env, error) && vial_decode_real(body, "timeout_seconds", &out->timeout_seconds, error) &&
	       vial_decode_bool(body, "undo", &out->undo, error) && vial_decode_bool(body, "background", &out->background, error) &&
	       vial_decode_text(body, "encoding", out_encoding, error) && vial_decode_bytes(body, "stdin", &out->input, error);
}

static json_t *end_json(const VialExecEnd *end)
{
	json_t *json;

	if (end->pid)
		return json_pack("{s:I}", "pid", (json_int_t)end->pid);
	if (end->detached)
		return json_pack("{s:b}", "detached", TRUE);
	json = json_pack("{s:I, s:b, s:I, s:s*}", "exit_code", (json_int_t)end->exit_code, "timed_out", end->timed_out, "duration_ms",
	                 (json_int_t)end->duration_ms, "signal", end->signal);
	if (end->oom)
		json_object_set_new(json, "oom", json_true());
	if (end->zone_lost)
		json_object_set_new(json, "zone_lost", json_true());
	if (end->cancelled)
		json_object_set_new(json, "cancelled", json_true());
	return json;
}

/* Collected */

static void on_done(const VialExecAnswer *answer, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	g_autoptr(GError) timeout =
		!error && answer->end.timed_out && vial_surface_is_pandastack(exchange->request) ? vial_pandastack_timeout() : NULL;
	json_t *json;

	if (error || timeout)
		return vial_exchange_fail(exchange, error ? error : timeout);
	json = end_json(&answer->end);
	for (guint i = 0; i < G_N_ELEMENTS(stream_names); i++)
		json_object_set_new(json, stream_names[i], json_stringn(answer->output[i], answer->output_size[i]));
	json_object_set_new(json, "timed_out", json_boolean(answer->end.timed_out));
	json_object_set_new(json, "truncated", json_boolean(answer->end.truncated));
	if (answer->end.full_output)
		json_object_set_new(json, "full_output", json_string(answer->end.full_output));
	vial_surface_tell_session(exchange->request, json);
	vial_request_reply_json(exchange->request, 200, json);
	vial_exchange_end(exchange);
}

/* Streamed */

typedef struct {
	gboolean is_base64; /* the exact bytes */
	VialUtf8 utf8[2];
} Stream;

static json_t *chunk(Stream *stream, VialOutputStream which, GBytes *bytes)
{
	gsize size;
	const guint8 *content = g_bytes_get_data(bytes, &size);
	g_autoptr(GString) text = NULL;

	if (stream->is_base64) {
		g_autofree char *encoded = g_base64_encode(content, size);

		return json_pack("{s:s}", "chunk_base64", encoded);
	}
	text = g_string_sized_new(size);
	vial_utf8_feed(&stream->utf8[which], content, size, text);
	return text->len > 0 ? json_pack("{s:s%}", "chunk", text->str, text->len) : NULL;
}

static gboolean on_output(VialOutputStream which, GBytes *bytes, gpointer data)
{
	VialExchange *exchange = data;
	json_t *json = chunk(exchange->state, which, bytes);

	return json && vial_exchange_send(exchange, stream_names[which], json);
}

static void on_end(const VialExecEnd *end, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	g_autoptr(GError) timeout = !error && end->timed_out && vial_surface_is_pandastack(exchange->request) ? vial_pandastack_timeout() : NULL;
	json_t *last;

	if (vial_exchange_fail_early(exchange, error))
		return;
	error = error ? error : timeout;
	last = error ? json_pack("{s:s}", "error", error->message) : end_json(end);
	vial_surface_tell_session(exchange->request, last);
	vial_exchange_send(exchange, error ? "error" : "exit", last);
	vial_request_stream_end(exchange->request);
	vial_exchange_end(exchange);
}

static const VialExecSink stream_sink = { .begun = vial_exchange_sse_begin, .output = on_output, .end = on_end };

static void start(VialRequest *request, gboolean is_stream)
{
	VialCaller caller = vial_surface_caller(request);
	Stream *stream = g_new0(Stream, 1);
	VialExchange *exchange = vial_exchange_new(request, stream, g_free);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	const char *encoding = NULL;
	VialExecRequest exec;

	if (!decode(request, &exec, &encoding, &error)) {
		/* refused below */
	} else if (is_stream && !exec.background) {
		stream->is_base64 = g_strcmp0(encoding, "base64") == 0;
		operation = vial_op_exec(&caller, vial_surface_sandbox(request), &exec, &stream_sink, exchange, &error);
	} else { /* one in the background answers with its pid at once, in either form as plain JSON */
		operation = vial_op_exec_collected(&caller, vial_surface_sandbox(request), &exec, on_done, exchange, &error);
	}
	g_clear_pointer(&exec.input, g_bytes_unref);
	vial_exchange_begin(exchange, operation, &error);
}

void vial_api_exec(VialRequest *request)
{
	if (vial_podflare_is_exec(request))
		vial_podflare_exec(request);
	else
		start(request, FALSE);
}

void vial_api_exec_stream(VialRequest *request)
{
	start(request, TRUE);
}

void vial_api_process_attach(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, g_new0(Stream, 1), g_free);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	gint64 pid;

	if (vial_decode_pid(request, &pid, &error))
		operation = vial_op_attach(&caller, vial_surface_sandbox(request), pid, &stream_sink, exchange, &error);
	vial_exchange_begin(exchange, operation, &error);
}
