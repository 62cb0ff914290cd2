/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of HTTP/1 framing that the request's and the answer's side share, strict: where two parsers could read a
 * message differently, it is not read at all.
 */
#pragma once

#include <glib.h>

#define VIAL_HTTP_MAX_HEAD 32768
#define VIAL_HTTP_MAX_CHUNK_LINE 256

typedef struct {
	const char *name, *value; /* not terminated */
	gsize name_length, value_length;
} VialHttpField;

/* One header line without its CR LF; blanks around the value are left out. FALSE: folded, without a colon, or a bad name. */
gboolean vial_http_field_split(const char *line, gsize length, VialHttpField *out);
gboolean vial_http_field_is(const VialHttpField *field, const char *name);
gboolean vial_http_field_has_value(const VialHttpField *field, const char *value); /* letters' case aside */

/* How a body is framed, gathered field by field. */
typedef struct {
	gboolean is_chunked;
	gboolean has_length;
	guint64 length;
} VialHttpFraming;

/* Takes Content-Length and Transfer-Encoding, leaves other fields alone. FALSE: repeated differently, or nothing we know. */
gboolean vial_http_framing_take(VialHttpFraming *framing, const VialHttpField *field);

/*
 * The next line of `text`: its length without CR LF, and what follows it in *out_next. -1 when it ends in anything but CR
 * LF or has a NUL or CR in it. There must be a line feed.
 */
gssize vial_http_line(const char *text, gsize size, const char **out_next);

/* The size line of a chunk: its bytes with the line end; 0 when it is not whole yet, -1 when it is nonsense. */
gssize vial_http_chunk_line(const guint8 *data, gsize size, guint64 *out_size);

/* Bytes of a head up to and including its empty line, 0 when that is not there yet; *scanned remembers where to go on. */
gsize vial_http_head_end(const guint8 *data, gsize size, gsize *scanned);
