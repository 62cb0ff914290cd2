/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /files: one file as the body itself, or any number as the parts of a form; the body may be gzip. Nothing is kept: what arrives goes through
 * (inflate →) (form →) the operation that writes the file, and where that has no room for more, each stops the one before it, up to the client.
 */
#include <string.h>

#include "http/inflate.h"
#include "http/multipart.h"
#include "operations/files.h"
#include "surfaces/e2b/data.h"
#include "util/json.h"

#define FIELD "file"

typedef struct {
	VialExchange *exchange;    /* its operation is that of the file being written */
	VialInflate *inflate;      /* NULL: the body is as it is */
	VialMultipart *form;       /* NULL: the body is the file */
	const char *user, *path;   /* of the query; may be NULL */
	json_t *metadata;          /* NULL: none */
	char *target;              /* of the file being written, as it will be answered */
	GByteArray *waiting;       /* of its bytes, until there is room */
	json_t *written;           /* the answer */
	gboolean is_file_complete; /* all its bytes have come */
	gboolean is_body_complete;
	gboolean is_skipping;    /* a part that is no file */
	gboolean is_note_broken; /* it is no text */
} Upload;

static void upload_free(gpointer data)
{
	Upload *upload = data;

	vial_inflate_free(upload->inflate);
	vial_multipart_free(upload->form);
	json_decref(upload->metadata);
	json_decref(upload->written);
	g_byte_array_unref(upload->waiting);
	g_free(upload->target);
	g_free(upload);
}

static void reply(Upload *upload)
{
	VialExchange *exchange = upload->exchange;

	vial_request_reply_json(exchange->request, 200, json_incref(upload->written));
	vial_exchange_end(exchange);
}

/* The file being written stays as it was. */
static void fail(Upload *upload, const GError *error)
{
	g_clear_pointer(&upload->exchange->operation, vial_operation_cancel);
	vial_e2b_exchange_fail(upload->exchange, error);
}

/* The file being written */

static gboolean has_room(const Upload *upload)
{
	return upload->waiting->len == 0 && vial_operation_room(upload->exchange->operation) > 0;
}

static void flush(Upload *upload)
{
	VialOperation *operation = upload->exchange->operation;
	gsize piece = MIN(vial_operation_room(operation), upload->waiting->len);

	if (piece > 0) {
		vial_operation_write(operation, upload->waiting->data, piece);
		g_byte_array_remove_range(upload->waiting, 0, (guint)piece);
	}
	if (upload->is_file_complete && upload->waiting->len == 0)
		vial_operation_write_end(operation);
}

/* What was stopped goes on, from the form back to the client. */
static void go_on(Upload *upload)
{
	if (upload->form && !vial_multipart_resume(upload->form))
		return;
	if (upload->inflate && !vial_inflate_resume(upload->inflate))
		return;
	vial_request_body_resume(upload->exchange->request);
}

static gboolean file_data(const void *bytes, gsize size, gpointer data)
{
	Upload *upload = data;
	const guint8 *next = bytes;
	gsize piece = upload->waiting->len == 0 ? MIN(vial_operation_room(upload->exchange->operation), size) : 0;

	if (upload->is_skipping)
		return FALSE;
	vial_operation_write(upload->exchange->operation, next, piece);
	if (size > piece)
		g_byte_array_append(upload->waiting, next + piece, (guint)(size - piece));
	return !has_room(upload);
}

static void on_writable(gpointer data)
{
	Upload *upload = data;

	flush(upload);
	if (has_room(upload) && !upload->is_file_complete)
		go_on(upload);
}

static void on_begun(VialOperation *operation, gpointer data)
{
	Upload *upload = data;

	upload->exchange->operation = operation;
	on_writable(upload);
}

static void on_written(const char *path, gint64 bytes, const GError *error, gpointer data)
{
	Upload *upload = data;
	g_autofree char *name = g_path_get_basename(upload->target);
	g_autoptr(GError) refusal = NULL;

	upload->exchange->operation = NULL;
	if (error && g_error_matches(error, VIAL_ERROR, VIAL_ERROR_CONFLICT)) /* it is a folder */
		vial_fail(&refusal, VIAL_ERROR_INVALID, "%s", error->message);
	if (error)
		return fail(upload, refusal ? refusal : error);
	json_array_append_new(upload->written,
	                      json_pack("{s:s, s:s, s:s, s:O*}", "name", name, "path", upload->target, "type", "file", "metadata", upload->metadata));
	if (upload->form)
		go_on(upload);
	else
		reply(upload);
}

static const VialWriteSink write_sink = { .begun = on_begun, .writable = on_writable, .end = on_written };

/* FALSE: it was refused, and that is answered. */
static gboolean begin_file(Upload *upload, const char *path)
{
	VialRequest *request = upload->exchange->request;
	VialCaller caller = vial_surface_caller(request);
	g_autoptr(GError) error = NULL;
	VialFileRequest file = { .user = upload->user };
	VialOperation *operation;

	g_free(upload->target);
	upload->target = vial_e2b_path(upload->user, path);
	upload->is_file_complete = FALSE;
	file.path = upload->target;
	file.metadata = upload->metadata;
	operation = vial_op_file_write(&caller, vial_surface_sandbox(request), &file, &write_sink, upload, &error);
	if (!operation) {
		fail(upload, error);
		return FALSE;
	}
	upload->exchange->operation = operation;
	return TRUE;
}

/* A form */

static gboolean part_begin(const VialMultipartPart *part, gpointer data)
{
	Upload *upload = data;
	const char *path = upload->path ? upload->path : part->filename;
	g_autoptr(GError) error = NULL;

	upload->is_skipping = strcmp(part->name, FIELD) != 0;
	if (upload->is_skipping)
		return FALSE;
	if (path && *path)
		return !begin_file(upload, path) || !has_room(upload);
	vial_fail(&error, VIAL_ERROR_INVALID, "a part of the form says no file name, and the address no path");
	fail(upload, error);
	return TRUE;
}

static gboolean part_end(gpointer data)
{
	Upload *upload = data;

	if (upload->is_skipping)
		return FALSE;
	upload->is_file_complete = TRUE;
	flush(upload);
	return TRUE; /* the next one begins when this one is written */
}

static void form_end(const GError *error, gpointer data)
{
	Upload *upload = data;

	if (error)
		fail(upload, error);
	else
		reply(upload);
}

static const VialMultipartSink form_sink = { .part_begin = part_begin, .part_data = file_data, .part_end = part_end, .end = form_end };

/* The body */

static gboolean take(const void *bytes, gsize size, gpointer data)
{
	Upload *upload = data;

	return upload->form ? !vial_multipart_push(upload->form, bytes, size) : file_data(bytes, size, upload);
}

static void complete(Upload *upload)
{
	if (upload->form)
		return vial_multipart_finish(upload->form);
	upload->is_file_complete = TRUE;
	flush(upload);
}

static void inflate_end(const GError *error, gpointer data)
{
	Upload *upload = data;

	if (error)
		fail(upload, error);
	else
		complete(upload);
}

static const VialInflateSink inflate_sink = { .data = take, .end = inflate_end };

static gboolean on_body(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	Upload *upload = data;

	return upload->inflate ? vial_inflate_push(upload->inflate, bytes, size) : !take(bytes, size, upload);
}

static void on_body_end(VialRequest *request, gboolean is_complete, gpointer data)
{
	Upload *upload = data;

	/* A broken upload ends through the gone callback, which cancels: the target stays as it was. */
	if (!is_complete)
		return;
	if (upload->inflate)
		vial_inflate_finish(upload->inflate);
	else
		complete(upload);
}

/* Beginning */

#define METADATA_PREFIX "X-Metadata-"

static void take_metadata(const char *name, const char *value, gpointer data)
{
	Upload *upload = data;
	g_autofree char *key = NULL;

	if (g_ascii_strncasecmp(name, METADATA_PREFIX, strlen(METADATA_PREFIX)) != 0)
		return;
	key = g_ascii_strdown(name + strlen(METADATA_PREFIX), -1);
	if (!upload->metadata)
		upload->metadata = json_object();
	if (json_object_set_new(upload->metadata, key, json_string(value)) < 0)
		upload->is_note_broken = TRUE;
}

static gboolean is_form(const char *content_type)
{
	return content_type && g_ascii_strncasecmp(content_type, "multipart/form-data", strlen("multipart/form-data")) == 0;
}

static gboolean read_head(Upload *upload, GError **error)
{
	VialRequest *request = upload->exchange->request;
	const char *type = vial_request_header(request, "Content-Type");
	gboolean is_gzip;

	if (!vial_inflate_is_asked(vial_request_header(request, "Content-Encoding"), &is_gzip, error))
		return FALSE;
	if (is_form(type) && !(upload->form = vial_multipart_new(type, &form_sink, upload, error)))
		return FALSE;
	if (!upload->form && (!upload->path || !*upload->path))
		return vial_fail(error, VIAL_ERROR_INVALID, "where to? The address has no path");
	if (is_gzip)
		upload->inflate = vial_inflate_new(&inflate_sink, upload);
	vial_request_each_header(request, take_metadata, upload);
	return !upload->is_note_broken || vial_fail(error, VIAL_ERROR_INVALID, "a header " METADATA_PREFIX "… is no text");
}

static void on_gone(VialRequest *request, gpointer data)
{
	Upload *upload = data;

	g_clear_pointer(&upload->exchange->operation, vial_operation_cancel);
	vial_exchange_end(upload->exchange);
}

void vial_e2b_file_upload(VialRequest *request)
{
	Upload *upload;
	g_autoptr(GError) error = NULL;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_SIGNATURE))
		return;
	upload = g_new0(Upload, 1);
	upload->waiting = g_byte_array_new();
	upload->written = json_array();
	upload->user = vial_request_query(request, "username");
	upload->path = vial_request_query(request, "path");
	upload->exchange = vial_exchange_new(request, upload, upload_free);
	if (!read_head(upload, &error))
		return fail(upload, error);
	vial_request_on_gone(request, on_gone, upload);
	if (upload->form || begin_file(upload, upload->path))
		vial_request_body_read(request, on_body, on_body_end, upload);
}
