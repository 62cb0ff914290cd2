/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stream.h"

#include <string.h>

#include "cli/api.h"
#include "cli/sse.h"

typedef struct {
	VialStreamFunc func;
	gpointer user;
	VialSse *sse;
} Stream;

static gboolean on_event(const char *event, const char *data, gsize size, gpointer user, GError **error)
{
	Stream *stream = user;
	g_autoptr(json_t) json = json_loadb(data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	if (!json) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "an event of the answer is not JSON: is it viald?");
		return FALSE;
	}
	return stream->func(event, json, stream->user, error);
}

static gboolean on_data(const void *bytes, gsize size, gpointer user, GError **error)
{
	return vial_sse_feed(((Stream *)user)->sse, bytes, size, error);
}

gboolean vial_stream_perform(VialCli *cli, const char *method, const char *path, json_t *body, VialStreamFunc func, gpointer user, GError **error)
{
	Stream stream = { .func = func, .user = user };
	g_autoptr(VialSse) sse = stream.sse = vial_sse_new(on_event, &stream);
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	g_auto(VialHttpRequest) request = {
		.method = method,
		.path = path,
		.body = text,
		.body_size = text ? strlen(text) : 0,
		.on_data = on_data,
		.data = &stream,
		.accept = "text/event-stream",
	};
	gboolean is_ok = vial_http_perform(cli->http, &request, error);
	free(text);
	return is_ok;
}

gboolean vial_stream_write_chunk(VialSink *sink, const json_t *data, GError **error)
{
	const json_t *text = json_object_get(data, "chunk");
	if (json_is_string(text))
		return vial_sink_write(sink, json_string_value(text), json_string_length(text), error);
	const char *encoded = vial_api_string(data, "chunk_base64");
	if (!encoded || !*encoded)
		return TRUE;
	gsize size = 0;
	g_autofree guchar *bytes = g_base64_decode(encoded, &size);
	return vial_sink_write(sink, (const char *)bytes, size, error);
}

void vial_stream_note_session(VialCli *cli, const json_t *session)
{
	g_autofree char *lost = vial_api_line(session, "lost");
	if (json_is_true(json_object_get(session, "fresh")) && *lost)
		vial_output_note(cli, "the session's sandbox was lost and it has a new one, without its variables and files: %s", lost);
}
