/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST …/exec: code in the language's context, what it prints as lines of JSON. The client puts lines together again with a line feed between each
 * two, so an event is a line without its end, the unfinished last one too, and a line is never cut in the middle unless it is longer than any answer
 * may be. While nothing is printed an empty line says every ten seconds that it still runs: the client gives up after thirty without a byte.
 */
#include <string.h>

#include "operations/limits.h"
#include "operations/run.h"
#include "operations/surface_user.h"
#include "surfaces/podflare/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"
#include "util/time.h"

#define NO_EXIT_CODE (-1) /* as the client has it where nothing was said */

static const char *const stream_names[] = { [VIAL_OUTPUT_STDOUT] = "stdout", [VIAL_OUTPUT_STDERR] = "stderr" };

typedef struct {
	GString *unfinished[2]; /* a line, by stream */
	gint64 seq;
} Stream;

static Stream *stream_new(void)
{
	Stream *stream = g_new0(Stream, 1);

	for (guint i = 0; i < G_N_ELEMENTS(stream->unfinished); i++)
		stream->unfinished[i] = g_string_new(NULL);
	return stream;
}

static void stream_free(gpointer data)
{
	Stream *stream = data;

	for (guint i = 0; i < G_N_ELEMENTS(stream->unfinished); i++)
		g_string_free(stream->unfinished[i], TRUE);
	g_free(stream);
}

/* Events */

/* Whether the client has enough for now. */
static gboolean send_event(VialExchange *exchange, const char *type, json_t *data)
{
	Stream *stream = exchange->state;

	return vial_request_ndjson_send(exchange->request, json_pack("{s:s, s:o, s:I, s:I}", "type", type, "data", data, "seq",
	                                                             (json_int_t)++stream->seq, "ts", (json_int_t)vial_time_now_ms())) >
	       VIAL_BODY_HIGH_BYTES;
}

static gboolean send_line(VialExchange *exchange, VialOutputStream which)
{
	GString *line = ((Stream *)exchange->state)->unfinished[which];
	gboolean is_full = send_event(exchange, stream_names[which], json_stringn(line->str, line->len));

	g_string_truncate(line, 0);
	return is_full;
}

static gboolean send_unfinished(VialExchange *exchange, VialOutputStream which)
{
	return ((Stream *)exchange->state)->unfinished[which]->len > 0 && send_line(exchange, which);
}

static gboolean add_text(VialExchange *exchange, VialOutputStream which, const char *text, gsize size)
{
	GString *line = ((Stream *)exchange->state)->unfinished[which];
	gboolean is_full = FALSE;

	while (size > 0) {
		const char *end = memchr(text, '\n', size);
		gsize length = end ? (gsize)(end - text) : size, step = end ? length + 1 : length;

		g_string_append_len(line, text, (gssize)length);
		if (end || line->len > VIAL_LINE_MAX_BYTES)
			is_full = send_line(exchange, which);
		text += step;
		size -= step;
	}
	return is_full;
}

/* Something that is lines of its own, behind what was printed until then. */
static gboolean add_lines(VialExchange *exchange, VialOutputStream which, const char *text)
{
	gboolean is_full = send_unfinished(exchange, which);

	is_full = add_text(exchange, which, text, strlen(text)) || is_full;
	return send_unfinished(exchange, which) || is_full;
}

/* The run */

static void on_begun(VialOperation *operation, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = operation;
	exchange->is_streaming = TRUE;
	vial_request_ndjson_begin(exchange->request, "", vial_exchange_drained, exchange);
}

static gboolean on_output(VialOutputStream which, const char *text, gsize size, gpointer data)
{
	return add_text(data, which, text, size);
}

/* A value that is shown, the last expression's first of all, is printed as at a terminal. */
static gboolean on_result(const VialRunResult *result, gpointer data)
{
	const char *text = json_string_value(json_object_get(result->bundle, "text/plain"));

	return text && !result->is_update && add_lines(data, VIAL_OUTPUT_STDOUT, text);
}

/* What a program prints that ends so. Of a shell's command that failed, and of who leaves by exit(), the exit code is all there is to say. */
static const char *complaint(const VialRunError *error)
{
	gboolean is_exit = strcmp(error->name, "SystemExit") == 0;

	if (strcmp(error->name, "ExitStatus") == 0 || (is_exit && (g_ascii_string_to_signed(error->value, 10, G_MININT64, G_MAXINT64, NULL, NULL) ||
	                                                           !error->value[0] || strcmp(error->value, "None") == 0)))
		return NULL;
	return is_exit || !error->traceback[0] ? error->value : error->traceback;
}

static gboolean on_error(const VialRunError *error, gpointer data)
{
	const char *text = complaint(error);

	return text && add_lines(data, VIAL_OUTPUT_STDERR, text);
}

static void on_end(const VialRunEnd *end, const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = NULL;
	if (vial_exchange_fail_early(exchange, error))
		return;
	for (guint i = 0; i < G_N_ELEMENTS(stream_names); i++)
		send_unfinished(exchange, i);
	if (error)
		add_lines(exchange, VIAL_OUTPUT_STDERR, error->message);
	send_event(exchange, "exit", json_integer(error ? NO_EXIT_CODE : end->exit_code));
	vial_request_stream_end(exchange->request);
	vial_exchange_end(exchange);
}

static gboolean decode(VialRequest *request, const VialCaller *caller, VialRunRequest *out, GError **error)
{
	const json_t *body = vial_request_json(request);

	*out = (VialRunRequest){ .user = vial_surface_user(caller), .max_output_bytes = VIAL_UNSAID };
	return vial_decode_bytes(body, "code", &out->code, error) && vial_decode_text(body, "language", &out->language, error);
}

void vial_podflare_exec(VialRequest *request)
{
	static const VialRunSink sink = { .begun = on_begun, .output = on_output, .result = on_result, .error = on_error, .end = on_end };
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, stream_new(), stream_free);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	VialRunRequest run;

	if (decode(request, &caller, &run, &error))
		operation = vial_op_run(&caller, vial_surface_sandbox(request), &run, &sink, exchange, &error);
	g_clear_pointer(&run.code, g_bytes_unref);
	vial_exchange_begin(exchange, operation, &error);
}
