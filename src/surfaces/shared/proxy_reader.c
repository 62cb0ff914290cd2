/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar is RFC 9112. Lines may end in a bare LF, as section 2.2 allows: little servers written for the occasion do
 * that, and since the answer is framed anew for the client nothing can be smuggled by it. Tests: proxy_reader_test.c and
 * tests/fuzz/fuzz_reply.c.
 */
#include "surfaces/shared/proxy_reader.h"

#include <string.h>

typedef enum {
	STATE_STATUS_LINE,
	STATE_HEADERS,
	STATE_FIXED, /* `left` bytes */
	STATE_CHUNK_SIZE,
	STATE_CHUNK_DATA, /* `left` bytes */
	STATE_CHUNK_END,  /* the line end after a chunk */
	STATE_TRAILER,
	STATE_UNTIL_CLOSE,
	STATE_END,
	STATE_BROKEN,
} State;

struct VialReplyReader {
	State state;
	gboolean has_no_body;
	gboolean may_switch;
	gboolean is_http_1_0;
	GString *line;    /* what has arrived of the current line */
	gsize head_bytes; /* of this head, or of the trailer */
	guint interim;
	unsigned status;
	GArray *headers; /* VialReplyHeader */
	gint64 size;
	gboolean is_chunked;
	guint64 left;
	const char *error;
};

static void clear_header(gpointer data)
{
	VialReplyHeader *header = data;

	g_free(header->name);
	g_free(header->value);
}

VialReplyReader *vial_reply_reader_new(gboolean has_no_body, gboolean may_switch)
{
	VialReplyReader *reader = g_new0(VialReplyReader, 1);

	reader->has_no_body = has_no_body;
	reader->may_switch = may_switch;
	reader->line = g_string_new(NULL);
	reader->headers = g_array_new(FALSE, FALSE, sizeof(VialReplyHeader));
	g_array_set_clear_func(reader->headers, clear_header);
	reader->size = -1;
	return reader;
}

void vial_reply_reader_free(VialReplyReader *reader)
{
	if (!reader)
		return;
	g_string_free(reader->line, TRUE);
	g_array_unref(reader->headers);
	g_free(reader);
}

static VialReplyEvent broken(VialReplyReader *reader, const char *why)
{
	reader->state = STATE_BROKEN;
	reader->error = why;
	return VIAL_REPLY_BROKEN;
}

static VialReplyEvent ended(VialReplyReader *reader)
{
	reader->state = STATE_END;
	return VIAL_REPLY_END;
}

/* Lines */

typedef enum { LINE_MORE, LINE_WHOLE, LINE_TOO_LONG } LineResult;

/* Collects up to the next LF; a whole line is in reader->line without its end. */
static LineResult take_line(VialReplyReader *reader, const guint8 **bytes, gsize *size, gsize limit)
{
	const guint8 *end = *size > 0 ? memchr(*bytes, '\n', *size) : NULL;
	gsize taken = end ? (gsize)(end - *bytes) + 1 : *size;

	if (taken > limit || reader->line->len > limit - taken)
		return LINE_TOO_LONG;
	g_string_append_len(reader->line, (const char *)*bytes, (gssize)(end ? taken - 1 : taken));
	*bytes += taken;
	*size -= taken;
	if (!end)
		return LINE_MORE;
	reader->head_bytes += reader->line->len + 1;
	if (reader->line->len > 0 && reader->line->str[reader->line->len - 1] == '\r')
		g_string_truncate(reader->line, reader->line->len - 1);
	return LINE_WHOLE;
}

/* The head */

static gboolean is_token(const char *text, gsize length)
{
	for (gsize i = 0; i < length; i++)
		if (!g_ascii_isalnum(text[i]) && (text[i] == '\0' || !strchr("!#$%&'*+-.^_`|~", text[i])))
			return FALSE;
	return length > 0;
}

static const char *read_status_line(VialReplyReader *reader)
{
	const char *line = reader->line->str;

	if (reader->line->len < 12 || (strncmp(line, "HTTP/1.1 ", 9) != 0 && strncmp(line, "HTTP/1.0 ", 9) != 0))
		return "it does not begin with an HTTP/1 status line";
	for (int i = 9; i < 12; i++)
		if (!g_ascii_isdigit(line[i]))
			return "its status is not a number";
	if (reader->line->len > 12 && line[12] != ' ')
		return "its status is not a number of three digits";
	reader->is_http_1_0 = line[7] == '0';
	reader->status = (unsigned)((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
	if (reader->status < 100 || reader->status > 599)
		return "its status is not between 100 and 599";
	return NULL;
}

static const char *read_header(VialReplyReader *reader)
{
	const char *line = reader->line->str, *colon = memchr(line, ':', reader->line->len);
	VialReplyHeader header;

	if (!colon || !is_token(line, (gsize)(colon - line)))
		return "one of its headers is malformed";
	for (const char *c = colon + 1; c < line + reader->line->len; c++)
		if (((guchar)*c < 0x20 && *c != '\t') || *c == 0x7f)
			return "one of its headers has a control character in it";
	if (reader->headers->len >= VIAL_REPLY_MAX_HEADERS)
		return "it has too many headers";
	header.name = g_strndup(line, (gsize)(colon - line));
	header.value = g_strdelimit(g_strdup(colon + 1), "\t", ' ');
	g_strstrip(header.value);
	g_array_append_val(reader->headers, header);
	return NULL;
}

/* A second Content-Length is tolerated when it says the same. */
static const char *read_framing(VialReplyReader *reader)
{
	for (guint i = 0; i < reader->headers->len; i++) {
		const VialReplyHeader *header = &g_array_index(reader->headers, VialReplyHeader, i);
		guint64 size;

		if (g_ascii_strcasecmp(header->name, "Content-Length") == 0) {
			if (!g_ascii_string_to_unsigned(header->value, 10, 0, G_MAXINT64, &size, NULL))
				return "its Content-Length is not a number";
			if (reader->size >= 0 && (guint64)reader->size != size)
				return "it has two different Content-Lengths";
			reader->size = (gint64)size;
		} else if (g_ascii_strcasecmp(header->name, "Transfer-Encoding") == 0) {
			if (reader->is_chunked || g_ascii_strcasecmp(header->value, "chunked") != 0)
				return "its Transfer-Encoding is not plain chunked";
			reader->is_chunked = TRUE;
		}
	}
	if (reader->is_chunked && (reader->size >= 0 || reader->is_http_1_0))
		return "its length is ambiguous";
	return NULL;
}

static gboolean is_bodiless(const VialReplyReader *reader)
{
	return reader->has_no_body || reader->status == 204 || reader->status == 304 || reader->status == 101;
}

static VialReplyEvent finish_head(VialReplyReader *reader)
{
	const char *problem = read_framing(reader);

	if (problem)
		return broken(reader, problem);
	if (is_bodiless(reader) || reader->size == 0)
		reader->state = STATE_END;
	else if (reader->is_chunked)
		reader->state = STATE_CHUNK_SIZE;
	else if (reader->size > 0)
		reader->state = STATE_FIXED;
	else
		reader->state = STATE_UNTIL_CLOSE;
	reader->left = reader->size > 0 ? (guint64)reader->size : 0;
	return VIAL_REPLY_HEAD;
}

/* 1xx but 101: read on for the real one. */
static const char *skip_interim(VialReplyReader *reader)
{
	if (++reader->interim > VIAL_REPLY_MAX_INTERIM)
		return "it has too many interim responses";
	g_array_set_size(reader->headers, 0);
	reader->head_bytes = 0;
	reader->state = STATE_STATUS_LINE;
	return NULL;
}

static VialReplyEvent read_head_line(VialReplyReader *reader)
{
	const char *problem;

	if (reader->state == STATE_STATUS_LINE) {
		problem = read_status_line(reader);
		reader->state = STATE_HEADERS;
	} else if (reader->line->len > 0) {
		problem = read_header(reader);
	} else if (reader->status == 101 && !reader->may_switch) {
		problem = "it switches protocols without having been asked to";
	} else if (reader->status < 200 && reader->status != 101) {
		problem = skip_interim(reader);
	} else {
		g_string_truncate(reader->line, 0);
		return finish_head(reader);
	}
	g_string_truncate(reader->line, 0);
	return problem ? broken(reader, problem) : VIAL_REPLY_MORE;
}

/* The body */

static VialReplyEvent read_chunk_size(VialReplyReader *reader)
{
	gsize digits = 0;
	guint64 size = 0;

	for (; g_ascii_isxdigit(reader->line->str[digits]); digits++) {
		if (digits == 15)
			return broken(reader, "a chunk is too large");
		size = size << 4 | (guint64)g_ascii_xdigit_value(reader->line->str[digits]);
	}
	if (digits == 0 || (reader->line->len > digits && !strchr("; \t", reader->line->str[digits])))
		return broken(reader, "the size of a chunk is malformed");
	g_string_truncate(reader->line, 0);
	reader->left = size;
	reader->head_bytes = 0;
	reader->state = size > 0 ? STATE_CHUNK_DATA : STATE_TRAILER;
	return VIAL_REPLY_MORE;
}

static VialReplyEvent read_body_line(VialReplyReader *reader)
{
	gboolean is_empty = reader->line->len == 0;

	if (reader->state == STATE_CHUNK_SIZE)
		return read_chunk_size(reader);
	g_string_truncate(reader->line, 0);
	if (reader->state == STATE_TRAILER) /* read and dropped: its fields were promised to us, not to the client */
		return is_empty ? ended(reader) : VIAL_REPLY_MORE;
	if (!is_empty)
		return broken(reader, "a chunk is longer than its size");
	reader->state = STATE_CHUNK_SIZE;
	return VIAL_REPLY_MORE;
}

static VialReplyEvent take_data(VialReplyReader *reader, const guint8 **bytes, gsize *size, const guint8 **out_data, gsize *out_size)
{
	gsize piece = reader->state == STATE_UNTIL_CLOSE ? *size : (gsize)MIN((guint64)*size, reader->left);

	*out_data = *bytes;
	*out_size = piece;
	*bytes += piece;
	*size -= piece;
	if (reader->state == STATE_UNTIL_CLOSE)
		return VIAL_REPLY_DATA;
	reader->left -= piece;
	if (reader->left == 0)
		reader->state = reader->state == STATE_CHUNK_DATA ? STATE_CHUNK_END : STATE_END;
	return VIAL_REPLY_DATA;
}

static VialReplyEvent take_head(VialReplyReader *reader, const guint8 **bytes, gsize *size)
{
	switch (take_line(reader, bytes, size, VIAL_REPLY_MAX_HEAD_BYTES - MIN(reader->head_bytes, VIAL_REPLY_MAX_HEAD_BYTES))) {
	case LINE_WHOLE:
		return read_head_line(reader);
	case LINE_TOO_LONG:
		return broken(reader, "its headers are too long");
	default:
		return VIAL_REPLY_MORE;
	}
}

static VialReplyEvent take_body_line(VialReplyReader *reader, const guint8 **bytes, gsize *size)
{
	if (reader->head_bytes > VIAL_REPLY_MAX_TRAILER_BYTES)
		return broken(reader, "its trailer is too long");
	switch (take_line(reader, bytes, size, VIAL_REPLY_MAX_LINE_BYTES)) {
	case LINE_WHOLE:
		return read_body_line(reader);
	case LINE_TOO_LONG:
		return broken(reader, "a line between its chunks is too long");
	default:
		return VIAL_REPLY_MORE;
	}
}

VialReplyEvent vial_reply_reader_next(VialReplyReader *reader, const guint8 **bytes, gsize *size, const guint8 **out_data, gsize *out_size)
{
	VialReplyEvent event = VIAL_REPLY_MORE;

	if (reader->state == STATE_END)
		return VIAL_REPLY_END;
	while (event == VIAL_REPLY_MORE && *size > 0) {
		switch (reader->state) {
		case STATE_STATUS_LINE:
		case STATE_HEADERS:
			event = take_head(reader, bytes, size);
			break;
		case STATE_CHUNK_SIZE:
		case STATE_CHUNK_END:
		case STATE_TRAILER:
			event = take_body_line(reader, bytes, size);
			break;
		case STATE_FIXED:
		case STATE_CHUNK_DATA:
		case STATE_UNTIL_CLOSE:
			return take_data(reader, bytes, size, out_data, out_size);
		default:
			return VIAL_REPLY_BROKEN;
		}
	}
	return reader->state == STATE_BROKEN ? VIAL_REPLY_BROKEN : event;
}

VialReplyEvent vial_reply_reader_finish(VialReplyReader *reader)
{
	switch (reader->state) {
	case STATE_UNTIL_CLOSE:
		return ended(reader);
	case STATE_END:
		return VIAL_REPLY_END;
	case STATE_BROKEN:
		return VIAL_REPLY_BROKEN;
	case STATE_STATUS_LINE:
		return broken(reader, reader->line->len == 0 ? "it closed the connection without an answer" : "it broke off in the status line");
	case STATE_HEADERS:
		return broken(reader, "it broke off in the headers");
	default:
		return broken(reader, "it broke off in the body");
	}
}

const char *vial_reply_reader_error(const VialReplyReader *reader)
{
	return reader->error ? reader->error : "nothing is wrong with it";
}

unsigned vial_reply_reader_status(const VialReplyReader *reader)
{
	return reader->status;
}

const VialReplyHeader *vial_reply_reader_headers(const VialReplyReader *reader, gsize *out_count)
{
	*out_count = reader->headers->len;
	return (const VialReplyHeader *)reader->headers->data;
}

const char *vial_reply_reader_header(const VialReplyReader *reader, const char *name)
{
	for (guint i = 0; i < reader->headers->len; i++) {
		const VialReplyHeader *header = &g_array_index(reader->headers, VialReplyHeader, i);

		if (g_ascii_strcasecmp(header->name, name) == 0)
			return header->value;
	}
	return NULL;
}

gint64 vial_reply_reader_size(const VialReplyReader *reader)
{
	return reader->size;
}

gboolean vial_reply_reader_has_body(const VialReplyReader *reader)
{
	return !is_bodiless(reader);
}
