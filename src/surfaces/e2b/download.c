/* SPDX-License-Identifier: Apache-2.0 */
/* GET /files: the bytes of one file. */
#include "operations/files.h"
#include "surfaces/e2b/data.h"

typedef struct {
	gboolean is_begun;
} Download;

static void on_opened(gint64 size_bytes, gpointer data)
{
	VialExchange *exchange = data;
	Download *download = exchange->state;

	download->is_begun = TRUE;
	vial_request_stream_begin(exchange->request, 200, "application/octet-stream", size_bytes, vial_exchange_drained, exchange);
}

static gboolean on_data(GBytes *bytes, gpointer data)
{
	VialExchange *exchange = data;

	return vial_request_stream_write(exchange->request, g_bytes_ref(bytes)) > VIAL_BODY_HIGH_BYTES;
}

static void on_read(const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	Download *download = exchange->state;
	g_autoptr(GError) refusal = NULL;

	if (error && !download->is_begun) {
		if (g_error_matches(error, VIAL_ERROR, VIAL_ERROR_CONFLICT)) /* it is a folder */
			vial_fail(&refusal, VIAL_ERROR_INVALID, "%s", error->message);
		return vial_e2b_exchange_fail(exchange, refusal ? refusal : error);
	}
	if (error)
		vial_request_stream_abort(exchange->request);
	else
		vial_request_stream_end(exchange->request);
	vial_exchange_end(exchange);
}

void vial_e2b_file_download(VialRequest *request)
{
	static const VialReadSink sink = { .opened = on_opened, .data = on_data, .end = on_read };
	const char *user = vial_request_query(request, "username");
	g_autofree char *path = vial_e2b_path(user, vial_request_query(request, "path"));
	VialFileRequest file = { .path = path, .user = user };
	g_autoptr(GError) error = NULL;
	VialExchange *exchange;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_SIGNATURE))
		return;
	caller = vial_surface_caller(request);
	exchange = vial_exchange_new(request, g_new0(Download, 1), g_free);
	vial_e2b_exchange_begin(exchange, vial_op_file_read(&caller, vial_surface_sandbox(request), &file, &sink, exchange, &error), &error);
}
