/* SPDX-License-Identifier: Apache-2.0 */
/* Files by their whole path, raw; and the workspace as one archive. */
#include "operations/archive.h"
#include "operations/files.h"
#include "operations/surface_user.h"
#include "surfaces/cloudflare/handlers.h"
#include "surfaces/shared/surface.h"
#include "surfaces/shared/transfer.h"
#include "util/json.h"

/* The path comes without its first slash, escaped. */
static char *decode_path(const VialRequest *request, GError **error)
{
	g_autofree char *path = g_uri_unescape_string(vial_request_param(request, "path"), NULL);

	if (path && g_utf8_validate(path, -1, NULL))
		return g_strconcat("/", path, NULL);
	vial_fail(error, VIAL_ERROR_INVALID, "the file's path is not valid: escapes must be %%XX, the text UTF-8 without NUL");
	return NULL;
}

void vial_cloudflare_file_read(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	g_autofree char *path = decode_path(request, &error);
	VialFileRequest file = { .path = path, .user = vial_surface_user(&caller) };

	if (path)
		operation = vial_op_file_read(&caller, vial_surface_sandbox(request), &file, &vial_download_sink, exchange, &error);
	vial_exchange_begin(exchange, operation, &error);
}

/* Both kinds of writing answer the same. */
static void on_done(const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	if (error)
		return vial_exchange_fail(exchange, error);
	vial_request_reply_json(exchange->request, 200, json_pack("{s:b}", "ok", TRUE));
	vial_exchange_end(exchange);
}

static void on_written(const char *path, gint64 bytes, const GError *error, gpointer data)
{
	on_done(error, data);
}

void vial_cloudflare_file_write(VialRequest *request)
{
	static const VialWriteSink sink = { .begun = vial_upload_begun, .writable = vial_upload_writable, .end = on_written };
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_upload_new(request);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	g_autofree char *path = decode_path(request, &error);
	VialFileRequest file = { .path = path, .user = vial_surface_user(&caller) };

	if (path)
		operation = vial_op_file_write(&caller, vial_surface_sandbox(request), &file, &sink, exchange, &error);
	vial_exchange_begin(exchange, operation, &error);
}

/* "a,b": paths in the workspace. */
void vial_cloudflare_persist(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	const char *excludes = vial_request_query(request, "excludes");
	g_auto(GStrv) list = excludes && *excludes ? g_strsplit(excludes, ",", -1) : NULL;
	VialArchiveRequest archive = { .path = VIAL_WORKSPACE, .excludes = (const char *const *)list };
	g_autoptr(GError) error = NULL;

	vial_exchange_begin(exchange, vial_op_archive_read(&caller, vial_surface_sandbox(request), &archive, &vial_download_sink, exchange, &error),
	                    &error);
}

void vial_cloudflare_hydrate(VialRequest *request)
{
	static const VialArchiveSink sink = { .begun = vial_upload_begun, .writable = vial_upload_writable, .end = on_done };
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_upload_new(request);
	VialArchiveRequest archive = { .path = VIAL_WORKSPACE, .user = vial_surface_user(&caller) };
	g_autoptr(GError) error = NULL;

	vial_exchange_begin(exchange, vial_op_archive_write(&caller, vial_surface_sandbox(request), &archive, &sink, exchange, &error), &error);
}
