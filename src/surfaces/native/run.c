/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST …/run on a language's default context and …/repl/sessions/{sid}/run on a given one: collected as one JSON answer, or streamed as events
 * stdout, stderr, result, clear, error and end.
 */
#include "operations/limits.h"
#include "operations/run.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/pandastack.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

static const char *const stream_names[] = { [VIAL_OUTPUT_STDOUT] = "stdout", [VIAL_OUTPUT_STDERR] = "stderr" };

static gboolean decode(VialRequest *request, VialRunRequest *out, GError **error)
{
	const json_t *body = vial_request_json(request);

	*out = (VialRunRequest){ .context = vial_request_param(request, "sid"),
		                 .language = vial_surface_language(request),
		                 .max_output_bytes = VIAL_UNSAID };
	return vial_decode_bytes(body, "code", &out->code, error) && vial_decode_text(body, "language", &out->language, error) &&
	       vial_decode_int(body, "timeout_ms", &out->timeout_ms, error) &&
	       vial_decode_int(body, "max_output_bytes", &out->max_output_bytes, error) &&
	       vial_decode_bool(body, "raw_ansi", &out->raw_ansi, error) && vial_decode_bool(body, "images", &out->images, error) &&
	       vial_decode_bool(body, "undo", &out->undo, error) && vial_decode_object(body, "env", &out->env, error) &&
	       vial_decode_list(body, "argv", &out->argv, error);
}

static json_t *error_json(const VialRunError *error)
{
	return json_pack("{s:s, s:s, s:s}", "error_name", error->name, "error_value", error->value, "error", error->traceback);
}

static void set_flag(json_t *json, const char *name, gboolean is_set)
{
	if (is_set)
		json_object_set_new(json, name, json_true());
}

static void set_text(json_t *json, const char *name, const char *text)
{
	if (text)
		json_object_set_new(json, name, json_string(text));
}

static void set_count(json_t *json, const char *name, gint64 count)
{
	if (count > 0)
		json_object_set_new(json, name, json_integer(count));
}

/* What both forms end with. */
static json_t *end_json(const VialRunEnd *end)
{
	json_t *json =
		json_pack("{s:s, s:I, s:I, s:i, s:b, s:b, s:b, s:O}", "execution_id", end->execution_id, "execution_count",
	                  (json_int_t)end->execution_count, "duration_ms", (json_int_t)end->duration_ms, "exit_code", (int)end->exit_code,
	                  "timed_out", end->timed_out, "kernel_restarted", end->kernel_restarted, "truncated", end->truncated, "files", end->files);

	set_flag(json, "cancelled", end->cancelled);
	set_flag(json, "files_truncated", end->files_truncated);
	set_text(json, "full_output", end->full_output);
	set_text(json, "results_file", end->results_file);
	set_count(json, "results_omitted", end->results_omitted);
	set_count(json, "results_lost", end->results_lost);
	return json;
}

/* Collected */

static void on_done(const VialRunAnswer *answer, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	gboolean is_pandastack = vial_surface_is_pandastack(exchange->request);
	g_autoptr(GError) timeout = !error && is_pandastack && answer->end.timed_out ? vial_pandastack_timeout() : NULL;
	json_t *json;

	if (error || timeout)
		return vial_exchange_fail(exchange, error ? error : timeout);
	json = end_json(&answer->end);
	for (guint i = 0; i < G_N_ELEMENTS(stream_names); i++)
		json_object_set_new(json, stream_names[i], json_stringn(answer->output[i], answer->output_size[i]));
	json_object_set_new(json, "results", is_pandastack ? vial_pandastack_results(answer->results) : json_incref(answer->results));
	if (answer->error) {
		g_autoptr(json_t) shown = error_json(answer->error);

		json_object_update(json, shown);
	}
	vial_surface_tell_session(exchange->request, json);
	vial_request_reply_json(exchange->request, 200, json);
	vial_exchange_end(exchange);
}

void vial_api_run(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	VialRunRequest run;

	if (decode(request, &run, &error))
		operation = vial_op_run_collected(&caller, vial_surface_sandbox(request), &run, on_done, exchange, &error);
	g_clear_pointer(&run.code, g_bytes_unref);
	vial_exchange_begin(exchange, operation, &error);
}

/* Streamed */

typedef struct {
	json_t *error; /* the end tells it again */
} Stream;

static void stream_free(gpointer data)
{
	Stream *stream = data;

	json_decref(stream->error);
	g_free(stream);
}

static gboolean on_output(VialOutputStream stream, const char *text, gsize size, gpointer data)
{
	return vial_exchange_send(data, stream_names[stream], json_pack("{s:s%}", "chunk", text, size));
}

static gboolean on_result(const VialRunResult *result, gpointer data)
{
	json_t *bundle = json_copy(result->bundle);

	json_object_set_new(bundle, "is_main_result", json_boolean(result->is_main_result));
	set_text(bundle, "display_id", result->display_id);
	set_flag(bundle, "is_update", result->display_id && result->is_update);
	return vial_exchange_send(data, "result", bundle);
}

static gboolean on_clear(gboolean is_waiting, gpointer data)
{
	return vial_exchange_send(data, "clear", json_pack("{s:b}", "wait", is_waiting));
}

static gboolean on_error(const VialRunError *error, gpointer data)
{
	VialExchange *exchange = data;
	Stream *stream = exchange->state;

	json_decref(stream->error);
	stream->error = error_json(error);
	return vial_exchange_send(exchange, "error", json_incref(stream->error));
}

static void on_end(const VialRunEnd *end, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	Stream *stream = exchange->state;
	json_t *last;

	if (vial_exchange_fail_early(exchange, error))
		return;
	last = error ? json_pack("{s:i}", "exit_code", 1) : end_json(end);
	if (error)
		vial_exchange_send(exchange, "error", json_pack("{s:s, s:s}", "error_name", "Unavailable", "error", error->message));
	else if (stream->error)
		json_object_update(last, stream->error);
	vial_surface_tell_session(exchange->request, last);
	vial_exchange_send(exchange, "end", last);
	vial_request_stream_end(exchange->request);
	vial_exchange_end(exchange);
}

void vial_api_run_stream(VialRequest *request)
{
	static const VialRunSink sink = {
		.begun = vial_exchange_sse_begin, .output = on_output, .result = on_result, .clear = on_clear, .error = on_error, .end = on_end
	};
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, g_new0(Stream, 1), stream_free);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	VialRunRequest run;

	if (decode(request, &run, &error))
		operation = vial_op_run(&caller, vial_surface_sandbox(request), &run, &sink, exchange, &error);
	g_clear_pointer(&run.code, g_bytes_unref);
	vial_exchange_begin(exchange, operation, &error);
}
