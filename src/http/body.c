/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies: collected for JSON and raw routes, handed on piece by piece for streaming ones, or thrown away. */
#include "http/internal.h"
#include "util/json.h"

static enum MHD_Result discard(VialRequest *request, gsize *size)
{
	request->discarded_bytes += *size;
	*size = 0;
	/*
	 * libmicrohttpd takes no answer in the middle of a body. Somebody we know may send the rest of a large upload to
	 * learn why it failed (the deadline bounds it); a stranger's endless chunked body is hung up on.
	 */
	return !request->identity && request->discarded_bytes > VIAL_HTTP_DISCARD_LIMIT_BYTES ? MHD_NO : MHD_YES;
}

static enum MHD_Result deliver(VialRequest *request, const char *data, gsize *size)
{
	/* Several chunks of one read come in a row even though we have suspended; untouched, they come again later. */
	if (request->is_body_paused)
		return MHD_YES;
	gsize length = *size;
	*size = 0;
	request->is_body_paused = TRUE; /* so that a resume from inside the callback is not lost */
	if (request->on_data(request, data, length, request->body_data))
		request->is_body_paused = FALSE;
	if (request->is_body_paused && !request->is_gone && !(request->is_answered && !request->stream.is_open))
		vial_connection_suspend(request->connection);
	return MHD_YES;
}

static enum MHD_Result collect(VialRequest *request, const char *data, gsize *size)
{
	gsize length = *size;

	if (!request->body)
		request->body = g_byte_array_sized_new(request->body_size > 0 ? (guint)request->body_size : (guint)length);
	if (request->body->len + length > request->body_limit) {
		g_clear_pointer(&request->body, g_byte_array_unref);
		vial_request_reply_fail(request, VIAL_ERROR_TOO_LARGE, "the body is too large: at most %" G_GSIZE_FORMAT " bytes here",
		                        request->body_limit);
		return discard(request, size);
	}
	g_byte_array_append(request->body, (const guint8 *)data, (guint)length);
	*size = 0;
	return MHD_YES;
}

enum MHD_Result vial_body_receive(VialRequest *request, const char *data, gsize *size)
{
	if (request->is_answered && !(request->on_data && request->stream.is_open))
		return discard(request, size);
	if (request->route->flags & VIAL_ROUTE_STREAM_BODY)
		return deliver(request, data, size);
	return collect(request, data, size);
}

gboolean vial_body_finish(VialRequest *request, GError **error)
{
	g_autoptr(GByteArray) body = g_steal_pointer(&request->body);

	if (request->route->flags & VIAL_ROUTE_RAW_BODY) {
		request->raw_body = body ? g_byte_array_free_to_bytes(g_steal_pointer(&body)) : g_bytes_new_static("", 0);
		return TRUE;
	}
	if (body && body->len > 0)
		request->json = vial_json_parse_object((const char *)body->data, body->len, error);
	else
		request->json = json_object();
	return request->json != NULL;
}

void vial_body_end(VialRequest *request, gboolean is_complete)
{
	VialBodyEndFunc on_end = request->on_end;

	request->on_data = NULL;
	request->on_end = NULL;
	if (!on_end || (request->is_answered && !request->stream.is_open))
		return;
	on_end(request, is_complete, request->body_data);
}

void vial_request_body_read(VialRequest *request, VialBodyDataFunc on_data, VialBodyEndFunc on_end, gpointer data)
{
	g_return_if_fail(!request->on_data && on_data);
	if (request->is_gone || request->stage > STAGE_HANDLING) {
		if (on_end)
			on_end(request, FALSE, data);
		return;
	}
	request->on_data = on_data;
	request->on_end = on_end;
	request->body_data = data;
	/* Held until now, or complete already (there was no body): either way the next call from below goes on with it. */
	vial_connection_resume(request->connection);
}

void vial_request_body_patient(VialRequest *request)
{
	if (!request->connection)
		return;
	request->is_patient = TRUE;
	MHD_set_connection_option(request->connection->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
}

void vial_request_body_resume(VialRequest *request)
{
	if (!request->is_body_paused)
		return;
	request->is_body_paused = FALSE;
	if (!request->is_gone && request->connection && request->stage == STAGE_BODY)
		vial_connection_resume(request->connection);
}
