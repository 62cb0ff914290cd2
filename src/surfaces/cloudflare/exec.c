/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST …/exec: one command, its output as events whose data is base64 and nothing around it. Three things of its clients decide how:
 *
 * The JavaScript one decodes each event to text by itself, so a character that is cut by an event's end waits for its other half.
 *
 * The Python one takes any exit for an exit and any early end for a broken line. Only what is silent until the client itself gives up, five seconds
 * after the time limit that it asked for, is a timeout to it. So when the limit has ended the command we say nothing. The JavaScript one would wait
 * for ever: whoever is still there after a while hears the exit code that timeout(1) has for this.
 *
 * To both an error is a broken line, of which they tell no reason. So a program that is not there is what it is to a shell: an exit code, and a
 * sentence.
 */
#include "operations/exec.h"
#include "operations/surface_user.h"

#include "surfaces/cloudflare/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

#define SILENCE_AFTER_TIMEOUT_MS 8000
#define EXIT_TIMED_OUT 124
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NO_PROGRAM 127

static const char *const stream_names[] = { [VIAL_OUTPUT_STDOUT] = "stdout", [VIAL_OUTPUT_STDERR] = "stderr" };

typedef struct {
	GByteArray *cut[2]; /* the beginning of a character, by stream */
	guint silence_id;
	gboolean is_asked; /* the guest: what is not found from here on is the program */
} Stream;

static Stream *stream_new(void)
{
	Stream *stream = g_new0(Stream, 1);

	for (guint i = 0; i < G_N_ELEMENTS(stream->cut); i++)
		stream->cut[i] = g_byte_array_new();
	return stream;
}

static void stream_free(gpointer data)
{
	Stream *stream = data;

	for (guint i = 0; i < G_N_ELEMENTS(stream->cut); i++)
		g_byte_array_unref(stream->cut[i]);
	if (stream->silence_id)
		g_source_remove(stream->silence_id);
	g_free(stream);
}

/* How many bytes at the end are a UTF-8 character that is not whole yet. */
static gsize cut_size(const guint8 *bytes, gsize size)
{
	for (gsize back = 1; back <= MIN(size, 3); back++) {
		guint8 c = bytes[size - back];
		gsize length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) != 0x80)
			return length > back ? back : 0;
	}
	return 0;
}

static gboolean send_bytes(VialExchange *exchange, VialOutputStream which, const guint8 *bytes, gsize size)
{
	g_autofree char *text = g_base64_encode(bytes, size);

	return vial_request_sse_send_text(exchange->request, stream_names[which], text, strlen(text)) > VIAL_BODY_HIGH_BYTES;
}

static gboolean on_output(VialOutputStream which, GBytes *bytes, gpointer data)
{
	VialExchange *exchange = data;
	GByteArray *cut = ((Stream *)exchange->state)->cut[which];
	g_autoptr(GByteArray) joined = NULL;
	gsize size, left;
	const guint8 *content = g_bytes_get_data(bytes, &size);

	if (cut->len > 0) {
		joined = g_byte_array_append(g_byte_array_append(g_byte_array_new(), cut->data, cut->len), content, (guint)size);
		content = joined->data;
		size = joined->len;
	}
	left = cut_size(content, size);
	g_byte_array_set_size(cut, 0);
	g_byte_array_append(cut, content + size - left, (guint)left);
	return size > left && send_bytes(exchange, which, content, size - left);
}

static void finish(VialExchange *exchange, const char *event, json_t *last)
{
	const Stream *stream = exchange->state;

	for (guint i = 0; i < G_N_ELEMENTS(stream->cut); i++)
		if (stream->cut[i]->len > 0)
			send_bytes(exchange, i, stream->cut[i]->data, stream->cut[i]->len);
	vial_exchange_send(exchange, event, last);
	vial_request_stream_end(exchange->request);
	vial_exchange_end(exchange);
}

static void send_exit(VialExchange *exchange, gint64 exit_code)
{
	finish(exchange, "exit", json_pack("{s:I}", "exit_code", (json_int_t)exit_code));
}

static gboolean on_silence_over(gpointer data)
{
	VialExchange *exchange = data;

	((Stream *)exchange->state)->silence_id = 0;
	send_exit(exchange, EXIT_TIMED_OUT);
	return G_SOURCE_REMOVE;
}

/* Begins the stream only when there is a process, so that what cannot be done is an ordinary error. */
static void on_begun(VialOperation *operation, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = operation;
	((Stream *)exchange->state)->is_asked = TRUE;
}

static void on_started(VialOperation *operation, gint64 pid, gpointer data)
{
	vial_exchange_sse_begin(operation, data);
}

/* As a shell tells of it; FALSE when it is nothing of the kind. */
static gboolean send_unstarted(VialExchange *exchange, const GError *error)
{
	gboolean is_missing = g_error_matches(error, VIAL_ERROR, VIAL_ERROR_NOT_FOUND);
	g_autofree char *sentence = NULL;

	if (exchange->is_streaming || !((Stream *)exchange->state)->is_asked ||
	    (!is_missing && !g_error_matches(error, VIAL_ERROR, VIAL_ERROR_FORBIDDEN)))
		return FALSE;
	sentence = g_strconcat(error->message, "\n", NULL);
	vial_exchange_sse_begin(NULL, exchange);
	send_bytes(exchange, VIAL_OUTPUT_STDERR, (const guint8 *)sentence, strlen(sentence));
	send_exit(exchange, is_missing ? EXIT_NO_PROGRAM : EXIT_NOT_EXECUTABLE);
	return TRUE;
}

static void on_end(const VialExecEnd *end, const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = NULL;
	if (send_unstarted(exchange, error) || vial_exchange_fail_early(exchange, error))
		return;
	if (error)
		finish(exchange, "error", json_pack("{s:s}", "error", error->message));
	else if (end->timed_out)
		((Stream *)exchange->state)->silence_id = g_timeout_add(SILENCE_AFTER_TIMEOUT_MS, on_silence_over, exchange);
	else
		send_exit(exchange, end->exit_code);
}

static gboolean decode(VialRequest *request, const VialCaller *caller, VialExecRequest *out, GError **error)
{
	const json_t *body = vial_request_json(request);
	gint64 timeout_ms = 0;

	*out = (VialExecRequest){ .user = vial_surface_user(caller) };
	if (!vial_decode_list(body, "argv", &out->argv, error) || !vial_decode_int(body, "timeout_ms", &timeout_ms, error))
		return FALSE;
	out->timeout_seconds = (double)timeout_ms / 1000;
	return TRUE;
}

void vial_cloudflare_exec(VialRequest *request)
{
	static const VialExecSink sink = { .begun = on_begun, .started = on_started, .output = on_output, .end = on_end };
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, stream_new(), stream_free);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	VialExecRequest exec;

	if (decode(request, &caller, &exec, &error))
		operation = vial_op_exec(&caller, vial_surface_sandbox(request), &exec, &sink, exchange, &error);
	vial_exchange_begin(exchange, operation, &error);
}
