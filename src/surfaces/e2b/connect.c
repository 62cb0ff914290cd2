/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/e2b/connect.h"

#include <string.h>

#include "operations/limits.h"
#include "util/json.h"

#define FLAG_COMPRESSED 0x01
#define FLAG_END 0x02
#define CONTENT_TYPE "application/connect+json"
/* How long a silence may be for whoever does not say it (Keepalive-Ping-Interval). */
#define SILENCE_SECONDS 90

/* Errors */

static const struct {
	const char *code;
	unsigned status; /* of a call with one answer: the protocol's own table */
} meanings[] = {
	[VIAL_ERROR_INTERNAL] = { "internal", 500 },
	[VIAL_ERROR_INVALID] = { "invalid_argument", 400 },
	[VIAL_ERROR_UNAUTHORIZED] = { "unauthenticated", 401 },
	[VIAL_ERROR_FORBIDDEN] = { "permission_denied", 403 },
	[VIAL_ERROR_NOT_FOUND] = { "not_found", 404 },
	[VIAL_ERROR_METHOD] = { "unimplemented", 501 },
	[VIAL_ERROR_CONFLICT] = { "failed_precondition", 400 },
	[VIAL_ERROR_TOO_LARGE] = { "invalid_argument", 400 },
	[VIAL_ERROR_QUOTA] = { "resource_exhausted", 429 },
	/* Not resource_exhausted, which the SDKs take for too many calls. */
	[VIAL_ERROR_NO_SPACE] = { "internal", 500 },
	[VIAL_ERROR_UNAVAILABLE] = { "unavailable", 503 },
	[VIAL_ERROR_TIMEOUT] = { "deadline_exceeded", 504 },
	[VIAL_ERROR_GATEWAY] = { "internal", 500 },
};

static gsize meaning_of(const GError *error)
{
	return error->domain == VIAL_ERROR && error->code >= 0 && (gsize)error->code < G_N_ELEMENTS(meanings) ? (gsize)error->code
	                                                                                                      : VIAL_ERROR_INTERNAL;
}

/* What this protocol can say and our codes cannot is the error's detail "connect". */
static const char *code_of(const GError *error)
{
	const char *own = json_string_value(json_object_get(vial_error_detail(error), "connect"));

	return own ? own : meanings[meaning_of(error)].code;
}

unsigned vial_connect_status(const GError *error)
{
	const char *code = code_of(error);

	for (gsize i = 0; i < G_N_ELEMENTS(meanings); i++)
		if (strcmp(meanings[i].code, code) == 0)
			return meanings[i].status;
	return strcmp(code, "already_exists") == 0 ? 409 : meanings[meaning_of(error)].status;
}

json_t *vial_connect_error_json(const GError *error)
{
	g_autofree char *sentence = g_utf8_make_valid(error->message, -1);

	return json_pack("{s:s, s:s}", "code", code_of(error), "message", sentence);
}

/* Requests */

void vial_connect_reader_push(VialConnectReader *reader, const void *bytes, gsize size)
{
	if (!reader->bytes)
		reader->bytes = g_byte_array_new();
	g_byte_array_append(reader->bytes, bytes, (guint)size);
}

json_t *vial_connect_reader_next(VialConnectReader *reader, GError **error)
{
	const guint8 *head = reader->bytes ? reader->bytes->data : NULL;
	gsize available = reader->bytes ? reader->bytes->len : 0, size;
	json_t *message;

	if (available < VIAL_CONNECT_FRAME_HEAD_BYTES)
		return NULL;
	size = (gsize)head[1] << 24 | (gsize)head[2] << 16 | (gsize)head[3] << 8 | head[4];
	if (head[0] & FLAG_COMPRESSED) {
		vial_fail(error, VIAL_ERROR_INVALID, "this frame says it is compressed, and no compression was agreed on");
		return NULL;
	}
	if (size > reader->max_bytes) {
		vial_fail(error, VIAL_ERROR_TOO_LARGE, "a message may have %" G_GSIZE_FORMAT " bytes", reader->max_bytes);
		return NULL;
	}
	if (available - VIAL_CONNECT_FRAME_HEAD_BYTES < size)
		return NULL;
	message = vial_json_parse_object((const char *)head + VIAL_CONNECT_FRAME_HEAD_BYTES, size, error);
	g_byte_array_remove_range(reader->bytes, 0, (guint)(VIAL_CONNECT_FRAME_HEAD_BYTES + size));
	return message;
}

void vial_connect_reader_clear(VialConnectReader *reader)
{
	g_clear_pointer(&reader->bytes, g_byte_array_unref);
}

json_t *vial_connect_request(VialRequest *request, GError **error)
{
	GBytes *body = vial_request_raw_body(request);
	VialConnectReader reader = { .max_bytes = VIAL_REQUEST_MAX_BYTES };
	g_autoptr(GError) problem = NULL;
	json_t *message;

	vial_connect_reader_push(&reader, g_bytes_get_data(body, NULL), g_bytes_get_size(body));
	message = vial_connect_reader_next(&reader, &problem);
	vial_connect_reader_clear(&reader);
	if (problem)
		g_propagate_error(error, g_steal_pointer(&problem));
	else if (!message)
		vial_fail(error, VIAL_ERROR_INVALID, "the body is no whole frame of the Connect protocol");
	return message;
}

gboolean vial_connect_timeout_ms(const VialRequest *request, gint64 *out_ms, GError **error)
{
	const char *text = vial_request_header(request, "Connect-Timeout-Ms");
	guint64 ms = 0;

	if (text && !g_ascii_string_to_unsigned(text, 10, 0, VIAL_TIMEOUT_MAX_MS, &ms, NULL))
		return vial_fail(error, VIAL_ERROR_INVALID, "the header Connect-Timeout-Ms is a number of milliseconds, at most a week");
	*out_ms = (gint64)ms;
	return TRUE;
}

/* Answers */

/* With room for the head in front. */
static GString *begin_frame(gsize size)
{
	GString *text = g_string_sized_new(size + VIAL_CONNECT_FRAME_HEAD_BYTES + 1);

	g_string_set_size(text, VIAL_CONNECT_FRAME_HEAD_BYTES);
	return text;
}

static GBytes *end_frame(GString *text, guint8 flags)
{
	gsize size = text->len - VIAL_CONNECT_FRAME_HEAD_BYTES;
	guint8 *head = (guint8 *)text->str;

	head[0] = flags;
	for (int i = 0; i < 4; i++)
		head[1 + i] = (guint8)(size >> (8 * (3 - i)));
	return g_string_free_to_bytes(text);
}

static gsize put(VialConnect *connect, guint8 flags, GString *text)
{
	connect->silent_since_us = g_get_monotonic_time();
	return vial_request_stream_write(connect->exchange->request, end_frame(text, flags));
}

static gsize put_text(VialConnect *connect, guint8 flags, const char *text)
{
	gsize size = strlen(text);

	return put(connect, flags, g_string_append_len(begin_frame(size), text, (gssize)size));
}

static gsize put_json(VialConnect *connect, guint8 flags, json_t *message)
{
	g_autofree char *text = vial_json_dump_ascii(message);

	json_decref(message);
	return put_text(connect, flags, text);
}

static gboolean on_silence(gpointer data)
{
	VialConnect *connect = data;
	gint64 silent_us = g_get_monotonic_time() - connect->silent_since_us;

	if (silent_us >= connect->interval_us) {
		put_text(connect, 0, connect->silence);
		silent_us = 0;
	}
	/* Not when it was last said, but so long after the last message: one timer does for any number of them. */
	connect->silence_id = g_timeout_add((guint)((connect->interval_us - silent_us) / 1000) + 1, on_silence, connect);
	return G_SOURCE_REMOVE;
}

void vial_connect_init(VialConnect *connect, VialExchange *exchange, const char *silence)
{
	const char *asked = vial_request_header(exchange->request, "Keepalive-Ping-Interval");
	guint64 seconds = SILENCE_SECONDS;

	/* Whoever asks for something else than a number of seconds gets the default, as from the original. */
	if (asked && !g_ascii_string_to_unsigned(asked, 10, 1, SILENCE_SECONDS, &seconds, NULL))
		seconds = SILENCE_SECONDS;
	*connect = (VialConnect){ .exchange = exchange, .silence = silence, .interval_us = (gint64)seconds * G_USEC_PER_SEC };
}

void vial_connect_clear(VialConnect *connect)
{
	g_clear_handle_id(&connect->silence_id, g_source_remove);
	g_clear_handle_id(&connect->limit_id, g_source_remove);
}

static gboolean on_limit(gpointer data)
{
	VialConnect *connect = data;
	g_autoptr(GError) error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_TIMEOUT, "the time limit of this call (Connect-Timeout-Ms) is over");

	connect->limit_id = 0;
	g_clear_pointer(&connect->exchange->operation, vial_operation_cancel);
	vial_connect_end(connect, error);
	return G_SOURCE_REMOVE;
}

void vial_connect_limit(VialConnect *connect, gint64 limit_ms)
{
	if (limit_ms > 0)
		connect->limit_id = g_timeout_add((guint)MIN(limit_ms, G_MAXINT), on_limit, connect);
}

void vial_connect_open(VialConnect *connect)
{
	VialExchange *exchange = connect->exchange;

	if (connect->is_open)
		return;
	connect->is_open = TRUE;
	exchange->is_streaming = TRUE;
	vial_request_set_header(exchange->request, "Cache-Control", "no-store");
	vial_request_set_header(exchange->request, "X-Accel-Buffering", "no");
	vial_request_stream_begin(exchange->request, 200, CONTENT_TYPE, -1, vial_exchange_drained, exchange);
	connect->silent_since_us = g_get_monotonic_time();
	if (connect->silence)
		connect->silence_id = g_timeout_add((guint)(connect->interval_us / 1000), on_silence, connect);
}

gboolean vial_connect_send(VialConnect *connect, json_t *message)
{
	vial_connect_open(connect);
	return put_json(connect, 0, message) > VIAL_BODY_HIGH_BYTES;
}

gboolean vial_connect_send_bytes(VialConnect *connect, const char *before, GBytes *bytes, const char *after)
{
	gsize size, used, start;
	const guint8 *data = g_bytes_get_data(bytes, &size);
	GString *text = begin_frame(strlen(before) + (size / 3 + 2) * 4 + strlen(after));
	int state = 0, save = 0;

	vial_connect_open(connect);
	g_string_append(text, before);
	/* In place: what a program prints is most of what goes through here. */
	start = text->len;
	g_string_set_size(text, start + (size / 3 + 2) * 4);
	used = g_base64_encode_step(data, size, FALSE, text->str + start, &state, &save);
	used += g_base64_encode_close(FALSE, text->str + start + used, &state, &save);
	g_string_set_size(text, start + used);
	g_string_append(text, after);
	return put(connect, 0, text) > VIAL_BODY_HIGH_BYTES;
}

void vial_connect_reply_error(VialRequest *request, const GError *error)
{
	g_autoptr(json_t) message = json_pack("{s:o}", "error", vial_connect_error_json(error));
	g_autofree char *text = vial_json_dump_ascii(message);

	vial_request_reply_bytes(request, 200, CONTENT_TYPE, end_frame(g_string_append(begin_frame(strlen(text)), text), FLAG_END));
}

void vial_connect_end(VialConnect *connect, const GError *error)
{
	VialExchange *exchange = connect->exchange;
	VialRequest *request = exchange->request;

	vial_connect_open(connect);
	if (error)
		put_json(connect, FLAG_END, json_pack("{s:o}", "error", vial_connect_error_json(error)));
	else
		put_text(connect, FLAG_END, "{}");
	vial_request_stream_end(request);
	vial_exchange_end(exchange);
}
