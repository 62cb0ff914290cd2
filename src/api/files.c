/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: raw bytes in and out, streamed with backpressure in both directions, and the small operations. Paths are never
 * looked at here: the agent acts on them inside the guest with the asked user's rights.
 */
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "util/json.h"
#include "wire/wire.h"

#define MAX_LIST_DEPTH 16

/* A question about the query's path and user; NULL after having answered. */
static json_t *path_question(VialRequest *request, const char *op)
{
	g_autoptr(json_t) question = json_pack("{s:s}", "op", op);
	g_autoptr(GError) error = NULL;

	if (vial_guest_add_path(question, "path", vial_request_query(request, "path"), &error) &&
	    vial_guest_add_user(question, vial_request_query(request, "user"), &error))
		return g_steal_pointer(&question);
	vial_request_reply_error(request, g_steal_pointer(&error));
	return NULL;
}

/* The same from a JSON body. */
static json_t *body_question(VialRequest *request, const char *op, const char *const *fields)
{
	json_t *body = vial_request_json(request);
	g_autoptr(json_t) question = json_pack("{s:s}", "op", op);
	g_autoptr(GError) error = NULL;
	const char *user = NULL;

	for (; *fields; fields++) {
		const char *path = NULL;

		if (!vial_json_get_string(body, *fields, VIAL_JSON_REQUIRED | VIAL_JSON_NONEMPTY, 4096, &path, &error) ||
		    !vial_guest_add_path(question, *fields, path, &error))
			goto refused;
	}
	if (vial_json_get_string(body, "user", 0, 64, &user, &error) && vial_guest_add_user(question, user, &error))
		return g_steal_pointer(&question);
refused:
	vial_request_reply_error(request, g_steal_pointer(&error));
	return NULL;
}

/* Reading */

typedef struct {
	gboolean has_begun;
	gsize unacknowledged;
} Download;

static void on_download_drained(VialRequest *request, gpointer data)
{
	VialSession *session = data;
	Download *download = session->state;

	vial_stream_consumed(session->stream, download->unacknowledged);
	download->unacknowledged = 0;
}

static void on_download_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	VialSession *session = data;
	Download *download = session->state;
	json_t *file_size = json_object_get(event, "size");
	json_t *entry = json_object_get(event, "entry");

	vial_stream_consumed(stream, size);
	if (entry)
		file_size = json_object_get(entry, "size");
	if (download->has_begun)
		return;
	download->has_begun = TRUE;
	/* Files of /proc and growing logs may have another length than they say: only a fixed length is promised. */
	vial_request_stream_begin(session->request, 200, "application/octet-stream",
	                          json_integer_value(file_size) > 0 ? json_integer_value(file_size) : -1, on_download_drained, session);
}

static void on_download_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	VialSession *session = data;
	Download *download = session->state;

	download->unacknowledged += g_bytes_get_size(bytes);
	if (vial_request_stream_write(session->request, g_bytes_ref(bytes)) < VIAL_BODY_HIGH_BYTES)
		on_download_drained(session->request, session);
}

static void on_download_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialSession *session = data;
	Download *download = session->state;

	if (error && !download->has_begun)
		return vial_session_fail(session, error);
	if (error)
		vial_request_stream_abort(session->request);
	else
		vial_request_stream_end(session->request);
	vial_session_end(session);
}

void vial_api_file_read(VialRequest *request)
{
	static const VialStreamEvents events = { .event = on_download_event, .data = on_download_data, .closed = on_download_closed };
	json_t *question = path_question(request, "fs.read");

	if (question)
		vial_session_start(request, question, &events, NULL, g_new0(Download, 1), g_free);
}

/* Writing */

typedef struct {
	GByteArray *waiting; /* arrived, but the agent has given no room yet */
	gboolean is_complete;
	gboolean is_stopped; /* the client is not being read */
} Upload;

static void upload_free(gpointer data)
{
	Upload *upload = data;

	g_byte_array_unref(upload->waiting);
	g_free(upload);
}

/* Sends what fits; TRUE when nothing waits any more. */
static gboolean upload_push(VialSession *session)
{
	Upload *upload = session->state;
	gsize piece = MIN(vial_stream_room(session->stream), upload->waiting->len);

	if (piece > 0) {
		vial_stream_send(session->stream, VIAL_WIRE_MAIN, upload->waiting->data, piece);
		g_byte_array_remove_range(upload->waiting, 0, (guint)piece);
	}
	if (upload->waiting->len > 0)
		return FALSE;
	if (upload->is_complete)
		vial_stream_send_eof(session->stream, VIAL_WIRE_MAIN);
	return TRUE;
}

static gboolean on_body(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	VialSession *session = data;
	Upload *upload = session->state;
	const guint8 *next = bytes;

	if (upload->waiting->len == 0) {
		/* The usual case goes straight through without a copy. */
		gsize piece = MIN(vial_stream_room(session->stream), size);

		vial_stream_send(session->stream, VIAL_WIRE_MAIN, next, piece);
		next += piece;
		size -= piece;
	}
	if (size > 0)
		g_byte_array_append(upload->waiting, next, (guint)size);
	upload->is_stopped = vial_stream_room(session->stream) == 0;
	return !upload->is_stopped;
}

static void on_body_end(VialRequest *request, gboolean complete, gpointer data)
{
	VialSession *session = data;
	Upload *upload = session->state;

	/* A broken upload ends through the gone callback, which cancels: the target stays as it was. */
	if (!complete)
		return;
	upload->is_complete = TRUE;
	if (upload->waiting->len == 0)
		vial_stream_send_eof(session->stream, VIAL_WIRE_MAIN);
}

static void on_upload_writable(VialStream *stream, gpointer data)
{
	VialSession *session = data;
	Upload *upload = session->state;

	if (upload_push(session) && upload->is_stopped) {
		upload->is_stopped = FALSE;
		vial_request_body_resume(session->request);
	}
}

static void on_upload_opened(VialSession *session)
{
	vial_request_body_read(session->request, on_body, on_body_end, session);
}

static void on_upload_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialSession *session = data;

	if (error)
		return vial_session_fail(session, error);
	vial_request_reply_json(session->request, 200,
	                        json_pack("{s:O, s:O}", "path", json_object_get(result, "path"), "bytes", json_object_get(result, "bytes")));
	vial_session_end(session);
}

void vial_api_file_write(VialRequest *request)
{
	static const VialStreamEvents events = { .writable = on_upload_writable, .closed = on_upload_closed };
	json_t *question = path_question(request, "fs.write");
	const char *mode = vial_request_query(request, "mode");
	Upload *upload;

	if (!question)
		return;
	if (mode)
		json_object_set_new(question, "mode", json_string(mode));
	upload = g_new0(Upload, 1);
	upload->waiting = g_byte_array_new();
	vial_session_start(request, question, &events, on_upload_opened, upload, upload_free);
}

/* Listing */

static void on_list_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	VialSession *session = data;

	vial_stream_consumed(stream, size);
	json_array_extend(session->state, json_object_get(event, "entries"));
}

static void on_list_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialSession *session = data;
	json_t *answer;

	if (error)
		return vial_session_fail(session, error);
	answer = json_pack("{s:O}", "entries", (json_t *)session->state);
	if (json_is_true(json_object_get(result, "truncated")))
		json_object_set_new(answer, "truncated", json_true());
	vial_request_reply_json(session->request, 200, answer);
	vial_session_end(session);
}

static void free_json(gpointer data)
{
	json_decref(data);
}

void vial_api_file_list(VialRequest *request)
{
	static const VialStreamEvents events = { .event = on_list_event, .closed = on_list_closed };
	json_t *question = path_question(request, "fs.list");
	const char *depth = vial_request_query(request, "depth");
	guint64 levels = 1;

	if (!question)
		return;
	if (depth && !g_ascii_string_to_unsigned(depth, 10, 1, MAX_LIST_DEPTH, &levels, NULL)) {
		json_decref(question);
		return vial_request_reply_fail(request, VIAL_ERROR_INVALID, "depth must be a number from 1 to %d", MAX_LIST_DEPTH);
	}
	json_object_set_new(question, "depth", json_integer((json_int_t)levels));
	vial_session_start(request, question, &events, NULL, json_array(), free_json);
}

/* The small ones */

static void reply_entry(VialRequest *request, json_t *result)
{
	vial_request_reply_json(request, 200, json_incref(json_object_get(result, "entry")));
}

static void reply_nothing(VialRequest *request, json_t *result)
{
	vial_request_reply_empty(request, 204);
}

static void ask(VialRequest *request, json_t *question, VialReply reply)
{
	if (question)
		vial_guest_ask(request, question, reply);
}

void vial_api_file_stat(VialRequest *request)
{
	ask(request, path_question(request, "fs.stat"), reply_entry);
}

void vial_api_file_mkdir(VialRequest *request)
{
	ask(request, body_question(request, "fs.mkdir", (const char *const[]){ "path", NULL }), reply_nothing);
}

void vial_api_file_move(VialRequest *request)
{
	ask(request, body_question(request, "fs.move", (const char *const[]){ "path", "to", NULL }), reply_nothing);
}

void vial_api_file_remove(VialRequest *request)
{
	json_t *question = path_question(request, "fs.remove");

	/* DELETE of a folder means the folder: `recursive=false` asks for the careful form. */
	if (question)
		json_object_set_new(question, "recursive", json_boolean(g_strcmp0(vial_request_query(request, "recursive"), "false") != 0));
	ask(request, question, reply_nothing);
}

/* Watching */

static void on_watch_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	VialSession *session = data;
	const char *name = json_string_value(json_object_get(event, "event"));

	vial_stream_consumed(stream, size);
	vial_request_sse_send(session->request, name ? name : "change", json_incref(event));
}

static void on_watch_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialSession *session = data;

	vial_request_sse_send(session->request, "error", json_pack("{s:s}", "error", error ? error->message : "the watch ended"));
	vial_request_stream_end(session->request);
	vial_session_end(session);
}

static void on_watch_opened(VialSession *session)
{
	vial_request_sse_begin(session->request, NULL, NULL);
}

void vial_api_file_watch(VialRequest *request)
{
	static const VialStreamEvents events = { .event = on_watch_event, .closed = on_watch_closed };
	json_t *question = path_question(request, "fs.watch");

	if (!question)
		return;
	json_object_set_new(question, "recursive", json_boolean(g_strcmp0(vial_request_query(request, "recursive"), "true") == 0));
	vial_session_start(request, question, &events, on_watch_opened, NULL, NULL);
}
