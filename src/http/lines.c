/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streamed answers made of lines: server-sent events (the HTML standard, section 9.2) and lines of JSON.
 *
 * All of it is ASCII. Clients in use decode an event stream as ISO-8859-1, end lines at U+0085, U+2028 and U+2029, or decode every piece that the
 * network gives them by itself; an escaped character comes through all of them.
 */
#include <string.h>

#include "http/internal.h"
#include "util/json.h"

/* Something keeps proxies from closing a silent stream, and clients from giving it up. If the last one is still unsent, another would not help. */
static gboolean on_silence(gpointer data)
{
	VialRequest *request = data;
	VialReplyStream *stream = &request->stream;
	gint64 silent_us = g_get_monotonic_time() - stream->last_write_us, limit_us = (gint64)request->server->config.heartbeat_ms * 1000;

	if (silent_us >= limit_us) {
		if (stream->queued_bytes == 0)
			vial_request_stream_write(request, g_bytes_ref(stream->heartbeat));
		silent_us = 0;
	}
	/* Not when it wrote last, but so long after that: one timer does for any number of writes. Removed with the stream. */
	if (stream->heartbeat_id)
		stream->heartbeat_id = g_timeout_add((guint)((limit_us - silent_us) / 1000) + 1, on_silence, request);
	return G_SOURCE_REMOVE;
}

static void begin(VialRequest *request, const char *content_type, GBytes *heartbeat, VialDrainFunc drained, gpointer data)
{
	VialReplyStream *stream = &request->stream;

	vial_request_set_header(request, "Cache-Control", "no-store");
	vial_request_set_header(request, "X-Accel-Buffering", "no"); /* nginx would hold lines back */
	vial_request_stream_begin(request, MHD_HTTP_OK, content_type, -1, drained, data);
	if (!heartbeat || !stream->is_open || request->is_gone) {
		g_bytes_unref(heartbeat);
		return;
	}
	stream->heartbeat = heartbeat;
	stream->last_write_us = g_get_monotonic_time();
	stream->heartbeat_id = g_timeout_add(request->server->config.heartbeat_ms, on_silence, request);
}

static gsize write_text(VialRequest *request, GString *text)
{
	request->stream.last_write_us = g_get_monotonic_time();
	return vial_request_stream_write(request, g_string_free_to_bytes(text));
}

/* Events */

void vial_request_sse_begin(VialRequest *request, VialDrainFunc drained, gpointer data)
{
	begin(request, "text/event-stream; charset=utf-8", g_bytes_new_static(":\n\n", 3), drained, data);
}

gsize vial_request_sse_send_text(VialRequest *request, const char *event, const char *text, gsize size)
{
	GString *message = g_string_sized_new(size + 64);

	/* JSON text has no line ends, so one data line is enough. */
	if (event)
		g_string_append_printf(message, "event: %s\n", event);
	g_string_append(message, "data: ");
	g_string_append_len(message, text, (gssize)size);
	g_string_append(message, "\n\n");
	return write_text(request, message);
}

gsize vial_request_sse_send(VialRequest *request, const char *event, json_t *data)
{
	g_autofree char *text = vial_json_dump_ascii(data);

	json_decref(data);
	return vial_request_sse_send_text(request, event, text, strlen(text));
}

/* Lines of JSON */

void vial_request_ndjson_begin(VialRequest *request, const char *idle_line, VialDrainFunc drained, gpointer data)
{
	g_autofree char *idle = idle_line ? g_strconcat(idle_line, "\n", NULL) : NULL;

	begin(request, "application/x-ndjson; charset=utf-8", idle ? g_bytes_new(idle, strlen(idle)) : NULL, drained, data);
}

gsize vial_request_ndjson_send_text(VialRequest *request, const char *text, gsize size)
{
	GString *line = g_string_sized_new(size + 2);

	g_string_append_len(line, text, (gssize)size);
	g_string_append_c(line, '\n');
	return write_text(request, line);
}

gsize vial_request_ndjson_send(VialRequest *request, json_t *line)
{
	g_autofree char *text = vial_json_dump_ascii(line);

	json_decref(line);
	return vial_request_ndjson_send_text(request, text, strlen(text));
}
