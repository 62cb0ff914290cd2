/* SPDX-License-Identifier: Apache-2.0 */
/* POST /execute: code in a context, as lines of JSON: stdout, stderr, result, error, number_of_executions and, last, end_of_execution. */
#include <string.h>

#include "operations/limits.h"
#include "operations/run.h"
#include "surfaces/e2b/code.h"
#include "surfaces/e2b/data.h"
#include "util/json.h"
#include "util/time.h"

#define KEEPALIVE "{\"type\":\"keepalive\"}"
/* A refusal of the guest's comes at once; code that is silent for longer has begun, and whoever waits for it is told so. */
#define REFUSAL_MS 1000

typedef struct {
	guint opening;
} Execution;

static void execution_free(gpointer data)
{
	Execution *execution = data;

	g_clear_handle_id(&execution->opening, g_source_remove);
	g_free(execution);
}

static void open_stream(VialExchange *exchange)
{
	Execution *execution = exchange->state;

	g_clear_handle_id(&execution->opening, g_source_remove);
	if (exchange->is_streaming)
		return;
	exchange->is_streaming = TRUE;
	vial_request_ndjson_begin(exchange->request, KEEPALIVE, vial_exchange_drained, exchange);
}

static gboolean on_silence(gpointer data)
{
	VialExchange *exchange = data;

	((Execution *)exchange->state)->opening = 0;
	open_stream(exchange);
	return G_SOURCE_REMOVE;
}

static gboolean tell(VialExchange *exchange, json_t *line)
{
	open_stream(exchange);
	return vial_request_ndjson_send(exchange->request, line) > VIAL_BODY_HIGH_BYTES;
}

/* Events */

static void on_begun(VialOperation *operation, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = operation;
	((Execution *)exchange->state)->opening = g_timeout_add(REFUSAL_MS, on_silence, exchange);
}

static gboolean on_output(VialOutputStream stream, const char *text, gsize size, gpointer data)
{
	char now[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(now, vial_time_now_ms());
	return tell(data,
	            json_pack("{s:s, s:s%, s:s}", "type", stream == VIAL_OUTPUT_STDERR ? "stderr" : "stdout", "text", text, size, "timestamp", now));
}

static gboolean on_result(const VialRunResult *result, gpointer data)
{
	return tell(data, vial_e2b_result_json(result->bundle, result->is_main_result));
}

static json_t *error_json(const char *name, const char *value, const char *traceback)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "type", "error", "name", name, "value", value, "traceback", traceback);
}

static gboolean on_error(const VialRunError *error, gpointer data)
{
	return tell(data, error_json(error->name, error->value, error->traceback));
}

static void on_end(const VialRunEnd *end, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	VialRequest *request = exchange->request;

	if (error && !exchange->is_streaming)
		return vial_e2b_code_fail(exchange, error);
	if (error && vial_e2b_is_gone(request)) {
		vial_request_stream_abort(request);
		return vial_exchange_end(exchange);
	}
	if (error)
		tell(exchange, error_json("Unavailable", error->message, error->message));
	else
		tell(exchange, json_pack("{s:s, s:I}", "type", "number_of_executions", "execution_count", (json_int_t)end->execution_count));
	tell(exchange, json_pack("{s:s}", "type", "end_of_execution"));
	vial_request_stream_end(request);
	vial_exchange_end(exchange);
}

/* Beginning */

/* Code begins where commands and contexts do: what was uploaded as "data.csv" is there. */
static gboolean decode(const json_t *body, const char *home, VialRunRequest *out, GError **error)
{
	*out = (VialRunRequest){ .cwd = home, .max_output_bytes = VIAL_OUTPUT_MAX_BYTES };
	if (!vial_decode_bytes(body, "code", &out->code, error) || !vial_decode_text(body, "context_id", &out->context, error) ||
	    !vial_decode_text(body, "language", &out->language, error) || !vial_decode_object(body, "env_vars", &out->env, error))
		return FALSE;
	if (out->context && out->language)
		return vial_fail(error, VIAL_ERROR_INVALID, "only one of context_id or language can be provided");
	out->language = vial_e2b_language(out->language);
	return TRUE;
}

void vial_e2b_execute(VialRequest *request)
{
	static const VialRunSink sink = { .begun = on_begun, .output = on_output, .result = on_result, .error = on_error, .end = on_end };
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	VialExchange *exchange;
	g_autofree char *home = vial_e2b_path(NULL, NULL);
	VialRunRequest run;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_caller(request);
	exchange = vial_exchange_new(request, g_new0(Execution, 1), execution_free);
	if (decode(vial_request_json(request), home, &run, &error))
		operation = vial_op_run(&caller, vial_surface_sandbox(request), &run, &sink, exchange, &error);
	g_clear_pointer(&run.code, g_bytes_unref);
	if (operation)
		vial_e2b_exchange_begin(exchange, operation, NULL);
	else
		vial_e2b_code_fail(exchange, error);
}
