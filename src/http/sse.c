/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events (the HTML standard, section 9.2) over a streamed answer. */
#include <string.h>

#include "http/internal.h"
#include "util/json.h"

/* A comment keeps proxies from closing a silent stream. If the last one is still unsent, another would not help. */
static gboolean send_heartbeat(gpointer data)
{
	VialRequest *request = data;

	if (request->stream.queued_bytes == 0)
		vial_request_stream_write(request, g_bytes_new_static(":\n\n", 3));
	return G_SOURCE_CONTINUE;
}

void vial_request_sse_begin(VialRequest *request, VialDrainFunc drained, gpointer data)
{
	vial_request_set_header(request, "Cache-Control", "no-store");
	vial_request_set_header(request, "X-Accel-Buffering", "no"); /* nginx would hold events back */
	vial_request_stream_begin(request, MHD_HTTP_OK, "text/event-stream", -1, drained, data);
	/* Removed with the stream, which ends no later than the request. */
	if (request->stream.is_open && !request->is_gone)
		request->stream.heartbeat_id = g_timeout_add_seconds(VIAL_HTTP_SSE_HEARTBEAT_SECONDS, send_heartbeat, request);
}

gsize vial_request_sse_send_text(VialRequest *request, const char *event, const char *text, gsize size)
{
	GString *message = g_string_sized_new(size + strlen(event) + 32);

	/* JSON text has no line ends, so one data line is enough. */
	g_string_append(message, "event: ");
	g_string_append(message, event);
	g_string_append(message, "\ndata: ");
	g_string_append_len(message, text, (gssize)size);
	g_string_append(message, "\n\n");
	return vial_request_stream_write(request, g_string_free_to_bytes(message));
}

gsize vial_request_sse_send(VialRequest *request, const char *event, json_t *data)
{
	g_autofree char *text = vial_json_dump(data);

	json_decref(data);
	return vial_request_sse_send_text(request, event, text, strlen(text));
}
