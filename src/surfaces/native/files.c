/* SPDX-License-Identifier: Apache-2.0 */
/* Files: raw bytes in and out, listings and the small verbs as JSON, watching as server-sent events. */
#include "operations/files.h"

#include <string.h>

#include "operations/surface_user.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "surfaces/shared/transfer.h"

static VialFileRequest decode_query(VialRequest *request)
{
	const char *user = vial_request_query(request, vial_surface_user_field(request));
	VialCaller caller = vial_surface_caller(request);

	return (VialFileRequest){
		.path = vial_request_query(request, "path"),
		.user = user ? user : vial_surface_user(&caller),
		.mode = vial_request_query(request, "mode"),
		.depth = 1,
	};
}

static gboolean decode_body(VialRequest *request, VialFileRequest *out, GError **error)
{
	const json_t *body = vial_request_json(request);
	VialCaller caller = vial_surface_caller(request);

	*out = (VialFileRequest){ .user = vial_surface_user(&caller) };
	return vial_decode_text(body, "path", &out->path, error) && vial_decode_text(body, "to", &out->to, error) &&
	       vial_decode_text(body, vial_surface_user_field(request), &out->user, error);
}

/* Reading */

void vial_api_file_read(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	VialFileRequest file = decode_query(request);
	g_autoptr(GError) error = NULL;

	vial_exchange_begin(exchange, vial_op_file_read(&caller, vial_surface_sandbox(request), &file, &vial_download_sink, exchange, &error),
	                    &error);
}

/* Writing */

static void on_written(const char *path, gint64 bytes, const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	if (error)
		return vial_exchange_fail(exchange, error);
	vial_request_reply_json(exchange->request, 200, json_pack("{s:s, s:I}", "path", path, "bytes", (json_int_t)bytes));
	vial_exchange_end(exchange);
}

void vial_api_file_write(VialRequest *request)
{
	static const VialWriteSink sink = { .begun = vial_upload_begun, .writable = vial_upload_writable, .end = on_written };
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_upload_new(request);
	VialFileRequest file = decode_query(request);
	g_autoptr(GError) error = NULL;

	vial_exchange_begin(exchange, vial_op_file_write(&caller, vial_surface_sandbox(request), &file, &sink, exchange, &error), &error);
}

/* Listing */

static void on_listed(json_t *document, const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	if (error)
		return vial_exchange_fail(exchange, error);
	vial_request_reply_json(exchange->request, 200, json_incref(document));
	vial_exchange_end(exchange);
}

void vial_api_file_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	VialFileRequest file = decode_query(request);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;

	if (vial_decode_query_int(request, "depth", &file.depth, &error))
		operation = vial_op_file_list(&caller, vial_surface_sandbox(request), &file, on_listed, exchange, &error);
	vial_exchange_begin(exchange, operation, &error);
}

/* The small ones */

void vial_api_file_stat(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	VialFileRequest file = decode_query(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_file_stat(&caller, vial_surface_sandbox(request), &file, vial_surface_reply_ok, request, &error), &error);
}

void vial_api_file_mkdir(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialFileRequest file;

	vial_surface_begun(request,
	                   decode_body(request, &file, &error) &&
	                           vial_op_file_mkdir(&caller, vial_surface_sandbox(request), &file, vial_surface_reply_nothing, request, &error),
	                   &error);
}

void vial_api_file_move(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialFileRequest file;

	vial_surface_begun(request,
	                   decode_body(request, &file, &error) &&
	                           vial_op_file_move(&caller, vial_surface_sandbox(request), &file, vial_surface_reply_nothing, request, &error),
	                   &error);
}

void vial_api_file_remove(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	VialFileRequest file = decode_query(request);
	g_autoptr(GError) error = NULL;

	/* DELETE of a folder means the folder: `recursive=false` asks for the careful form. */
	file.recursive = g_strcmp0(vial_request_query(request, "recursive"), "false") != 0;
	vial_surface_begun(request, vial_op_file_remove(&caller, vial_surface_sandbox(request), &file, vial_surface_reply_nothing, request, &error),
	                   &error);
}

/* Watching */

static gboolean on_change(const VialFileChange *change, gpointer data)
{
	json_t *json = json_pack("{s:s, s:s, s:s*}", "event", change->event, "path", change->path, "from", change->from);

	if (strcmp(change->event, "watching") != 0)
		json_object_set_new(json, "is_dir", json_boolean(change->is_dir));
	return vial_exchange_send(data, change->event, json);
}

static void on_watch_end(const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	if (vial_exchange_fail_early(exchange, error))
		return;
	vial_exchange_send(exchange, "error", json_pack("{s:s}", "error", error->message));
	vial_request_stream_end(exchange->request);
	vial_exchange_end(exchange);
}

void vial_api_file_watch(VialRequest *request)
{
	static const VialWatchSink sink = { .begun = vial_exchange_sse_begin, .change = on_change, .end = on_watch_end };
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	VialFileRequest file = decode_query(request);
	g_autoptr(GError) error = NULL;

	file.recursive = g_strcmp0(vial_request_query(request, "recursive"), "true") == 0;
	vial_exchange_begin(exchange, vial_op_file_watch(&caller, vial_surface_sandbox(request), &file, &sink, exchange, &error), &error);
}
