/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/shared/transfer.h"

/* Up */

typedef struct {
	GByteArray *waiting; /* arrived, but the guest has given no room yet */
	gboolean is_complete;
	gboolean is_stopped; /* the client is not being read */
} Upload;

static void upload_free(gpointer data)
{
	Upload *upload = data;

	g_byte_array_unref(upload->waiting);
	g_free(upload);
}

VialExchange *vial_upload_new(VialRequest *request)
{
	Upload *upload = g_new0(Upload, 1);

	upload->waiting = g_byte_array_new();
	return vial_exchange_new(request, upload, upload_free);
}

static gboolean on_body(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	VialExchange *exchange = data;
	Upload *upload = exchange->state;
	const guint8 *next = bytes;

	if (upload->waiting->len == 0) {
		/* The usual case goes straight through without a copy. */
		gsize piece = MIN(vial_operation_room(exchange->operation), size);

		vial_operation_write(exchange->operation, next, piece);
		next += piece;
		size -= piece;
	}
	if (size > 0)
		g_byte_array_append(upload->waiting, next, (guint)size);
	upload->is_stopped = vial_operation_room(exchange->operation) == 0;
	return !upload->is_stopped;
}

static void on_body_end(VialRequest *request, gboolean complete, gpointer data)
{
	VialExchange *exchange = data;
	Upload *upload = exchange->state;

	/* A broken upload ends through the gone callback, which cancels: the target stays as it was. */
	if (!complete)
		return;
	upload->is_complete = TRUE;
	if (upload->waiting->len == 0)
		vial_operation_write_end(exchange->operation);
}

void vial_upload_begun(VialOperation *operation, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = operation;
	vial_request_body_read(exchange->request, on_body, on_body_end, exchange);
}

/* Sends what fits; TRUE when nothing waits any more. */
static gboolean push(VialExchange *exchange)
{
	Upload *upload = exchange->state;
	gsize piece = MIN(vial_operation_room(exchange->operation), upload->waiting->len);

	if (piece > 0) {
		vial_operation_write(exchange->operation, upload->waiting->data, piece);
		g_byte_array_remove_range(upload->waiting, 0, (guint)piece);
	}
	if (upload->waiting->len > 0)
		return FALSE;
	if (upload->is_complete)
		vial_operation_write_end(exchange->operation);
	return TRUE;
}

void vial_upload_writable(gpointer data)
{
	VialExchange *exchange = data;
	Upload *upload = exchange->state;

	if (push(exchange) && upload->is_stopped) {
		upload->is_stopped = FALSE;
		vial_request_body_resume(exchange->request);
	}
}

/* Down */

static void on_opened(gint64 size_bytes, gpointer data)
{
	VialExchange *exchange = data;

	exchange->is_streaming = TRUE;
	vial_request_stream_begin(exchange->request, 200, "application/octet-stream", size_bytes, vial_exchange_drained, exchange);
}

static gboolean on_data(GBytes *bytes, gpointer data)
{
	VialExchange *exchange = data;

	return vial_request_stream_write(exchange->request, g_bytes_ref(bytes)) > VIAL_BODY_HIGH_BYTES;
}

static void on_end(const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	if (vial_exchange_fail_early(exchange, error))
		return;
	if (error)
		vial_request_stream_abort(exchange->request);
	else
		vial_request_stream_end(exchange->request);
	vial_exchange_end(exchange);
}

const VialReadSink vial_download_sink = { .opened = on_opened, .data = on_data, .end = on_end };
