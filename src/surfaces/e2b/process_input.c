/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.Process/StreamInput: a stream of what is typed or piped into a process, for as long as its client likes, who may be silent in between. The
 * first frame says which process, those after it bring bytes; the answer comes when the body has ended and the process has taken all of it.
 */
#include "operations/limits.h"
#include "operations/processes.h"
#include "surfaces/e2b/data.h"
#include "surfaces/e2b/process.h"
#include "util/json.h"

typedef struct {
	VialConnect connect; /* first */
	VialConnectReader reader;
	GByteArray *waiting; /* for the process, until it has room */
	gboolean is_complete;
} Feeding;

static void feeding_free(gpointer data)
{
	Feeding *feeding = data;

	vial_connect_clear(&feeding->connect);
	vial_connect_reader_clear(&feeding->reader);
	g_byte_array_unref(feeding->waiting);
	g_free(feeding);
}

/* TRUE when nothing waits any more. */
static gboolean flush(VialExchange *exchange)
{
	Feeding *feeding = exchange->state;
	gsize piece = MIN(vial_operation_room(exchange->operation), feeding->waiting->len);

	if (piece > 0) {
		vial_operation_write(exchange->operation, feeding->waiting->data, piece);
		g_byte_array_remove_range(feeding->waiting, 0, (guint)piece);
	}
	if (feeding->waiting->len > 0)
		return FALSE;
	if (feeding->is_complete)
		vial_operation_write_end(exchange->operation);
	return TRUE;
}

static void on_begun(VialOperation *operation, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = operation;
	if (flush(exchange))
		vial_request_body_resume(exchange->request);
}

static void on_writable(gpointer data)
{
	VialExchange *exchange = data;

	if (flush(exchange))
		vial_request_body_resume(exchange->request);
}

static void on_fed(const char *path, gint64 bytes, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	Feeding *feeding = exchange->state;

	exchange->operation = NULL;
	if (error)
		return vial_e2b_stream_end(&feeding->connect, error);
	vial_connect_send(&feeding->connect, json_object());
	vial_e2b_stream_end(&feeding->connect, NULL);
}

static gboolean begin(VialExchange *exchange, const json_t *start, GError **error)
{
	static const VialWriteSink sink = { .begun = on_begun, .writable = on_writable, .end = on_fed };
	VialCaller caller = vial_surface_caller(exchange->request);
	VialOperation *operation;
	gint64 pid;

	if (exchange->operation)
		return vial_fail(error, VIAL_ERROR_INVALID, "the stream was started already");
	if (!vial_e2b_process_pid(start, &pid, error))
		return FALSE;
	operation = vial_op_process_input(&caller, vial_surface_sandbox(exchange->request), pid, FALSE, NULL, &sink, exchange, error);
	exchange->operation = operation;
	return operation != NULL;
}

static gboolean take_data(VialExchange *exchange, const json_t *data, GError **error)
{
	Feeding *feeding = exchange->state;
	g_autoptr(GBytes) bytes = NULL;

	if (!exchange->operation)
		return vial_fail(error, VIAL_ERROR_INVALID, "the first message of this stream says which process");
	bytes = vial_e2b_process_bytes(data, error);
	if (bytes)
		g_byte_array_append(feeding->waiting, g_bytes_get_data(bytes, NULL), (guint)g_bytes_get_size(bytes));
	return bytes != NULL;
}

static gboolean take(VialExchange *exchange, const json_t *message, GError **error)
{
	json_t *start = json_object_get(message, "start"), *data = json_object_get(message, "data");

	if (start)
		return begin(exchange, start, error);
	return !data || take_data(exchange, data, error); /* or a keepalive */
}

static gboolean on_body(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	VialExchange *exchange = data;
	Feeding *feeding = exchange->state;
	g_autoptr(GError) error = NULL;
	json_t *message;

	vial_connect_reader_push(&feeding->reader, bytes, size);
	while (!error && (message = vial_connect_reader_next(&feeding->reader, &error))) {
		take(exchange, message, &error);
		json_decref(message);
	}
	if (!error)
		return flush(exchange);
	g_clear_pointer(&exchange->operation, vial_operation_cancel);
	vial_e2b_exchange_fail(exchange, error);
	return TRUE;
}

static void on_body_end(VialRequest *request, gboolean is_complete, gpointer data)
{
	VialExchange *exchange = data;
	Feeding *feeding = exchange->state;
	g_autoptr(GError) error = NULL;

	if (!is_complete) /* gone() follows */
		return;
	feeding->is_complete = TRUE;
	if (exchange->operation) {
		flush(exchange);
		return;
	}
	vial_fail(&error, VIAL_ERROR_INVALID, "the stream ended before it said which process");
	vial_e2b_exchange_fail(exchange, error);
}

static void on_gone(VialRequest *request, gpointer data)
{
	VialExchange *exchange = data;

	vial_operation_cancel(exchange->operation);
	vial_exchange_end(exchange);
}

void vial_e2b_process_stream_input(VialRequest *request)
{
	VialExchange *exchange;
	Feeding *feeding;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	feeding = g_new0(Feeding, 1);
	feeding->waiting = g_byte_array_new();
	feeding->reader.max_bytes = VIAL_REQUEST_MAX_BYTES;
	exchange = vial_exchange_new(request, feeding, feeding_free);
	vial_connect_init(&feeding->connect, exchange, NULL);
	vial_request_on_gone(request, on_gone, exchange);
	vial_request_body_patient(request);
	vial_request_body_read(request, on_body, on_body_end, exchange);
}
