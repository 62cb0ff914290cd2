/* SPDX-License-Identifier: Apache-2.0 */
#include "http/multipart.h"

#include <string.h>

#include "http/multipart_header.h"
#include "util/error.h"

/*
 * PREAMBLE and DATA end at "\r\n--boundary" (a body may begin with it without the line's end). After it comes DELIMITED, the rest of that line: "--",
 * and then only an EPILOGUE, or nothing, and then the HEADER of the next part up to an empty line. ENDED: the sink's `end` was called, or it left.
 */
typedef enum { PREAMBLE, DELIMITED, HEADER, DATA, EPILOGUE, ENDED } State;

struct VialMultipart {
	const VialMultipartSink *sink;
	gpointer data;
	State state;
	gboolean is_full;     /* the sink has enough */
	gboolean was_resumed; /* while one of its functions ran */
	gboolean is_finished; /* there will be no more pushes */
	gboolean is_busy;     /* in process(), further up */
	gboolean is_freed;    /* meanwhile */
	guint n_parts;
	gsize n_matched;     /* so many of the last bytes may be the delimiter's first */
	GString *line;       /* of DELIMITED and HEADER, as far as it came */
	GByteArray *waiting; /* pushed while the sink had enough */
	gsize delimiter_size;
	char delimiter[4 + VIAL_MULTIPART_BOUNDARY_MAX_BYTES + 1];
};

VialMultipart *vial_multipart_new(const char *content_type, const VialMultipartSink *sink, gpointer data, GError **error)
{
	g_autofree char *boundary = vial_multipart_boundary(content_type, error);
	VialMultipart *multipart;

	if (!boundary)
		return NULL;
	multipart = g_new0(VialMultipart, 1);
	multipart->sink = sink;
	multipart->data = data;
	multipart->n_matched = strlen("\r\n"); /* as if a line had ended before the first byte */
	multipart->line = g_string_new(NULL);
	multipart->waiting = g_byte_array_new();
	g_snprintf(multipart->delimiter, sizeof(multipart->delimiter), "\r\n--%s", boundary);
	multipart->delimiter_size = strlen(multipart->delimiter);
	return multipart;
}

static void destroy(VialMultipart *multipart)
{
	g_string_free(multipart->line, TRUE);
	g_byte_array_unref(multipart->waiting);
	g_free(multipart);
}

void vial_multipart_free(VialMultipart *multipart)
{
	if (!multipart)
		return;
	multipart->state = ENDED;
	multipart->is_freed = TRUE;
	if (!multipart->is_busy)
		destroy(multipart);
}

/* Telling the sink */

static void end(VialMultipart *multipart, const GError *error)
{
	multipart->state = ENDED;
	multipart->sink->end(error, multipart->data);
}

static void fail(VialMultipart *multipart, const char *sentence)
{
	g_autoptr(GError) error = NULL;

	vial_fail(&error, VIAL_ERROR_INVALID, "the form in the body is not valid: %s", sentence);
	end(multipart, error);
}

/* What one of its functions said; it may have asked for more before it returned. */
static void heard(VialMultipart *multipart, gboolean is_full)
{
	multipart->is_full = is_full && !multipart->was_resumed;
	multipart->was_resumed = FALSE;
}

static void tell_data(VialMultipart *multipart, const void *bytes, gsize size)
{
	if (multipart->state == DATA && size > 0)
		heard(multipart, multipart->sink->part_data(bytes, size, multipart->data));
}

static void begin_part(VialMultipart *multipart)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *name = NULL, *filename = NULL, *content_type = NULL;
	VialMultipartPart part;

	if (++multipart->n_parts > VIAL_MULTIPART_MAX_PARTS)
		return fail(multipart, "it has more than " G_STRINGIFY(VIAL_MULTIPART_MAX_PARTS) " parts");
	if (!vial_multipart_header_parse(multipart->line->str, multipart->line->len, &name, &filename, &content_type, &error))
		return fail(multipart, error->message);
	multipart->state = DATA;
	multipart->n_matched = 0;
	part = (VialMultipartPart){ name, filename, content_type };
	heard(multipart, multipart->sink->part_begin(&part, multipart->data));
}

static void end_part(VialMultipart *multipart)
{
	State before = multipart->state;

	multipart->state = DELIMITED;
	multipart->n_matched = 0;
	g_string_truncate(multipart->line, 0);
	if (before == DATA)
		heard(multipart, multipart->sink->part_end(multipart->data));
}

/* Reading: each function says how many bytes it used. One that uses none changes the state. */

/* The delimiter's first bytes were the last of the bytes before; what are these? */
static gsize continue_match(VialMultipart *multipart, const char *bytes, gsize size)
{
	const char *rest = multipart->delimiter + multipart->n_matched;
	gsize wanted = multipart->delimiter_size - multipart->n_matched, same = 0;

	while (same < MIN(wanted, size) && bytes[same] == rest[same])
		same++;
	multipart->n_matched += same;
	if (same == wanted) {
		end_part(multipart);
	} else if (same < size) {
		/* It was none. No other can have begun in it: it has one CR, in front. */
		gsize n_data = multipart->n_matched;

		multipart->n_matched = 0;
		tell_data(multipart, multipart->delimiter, n_data);
	}
	return same;
}

/* Up to the delimiter, or to what may be its beginning, in one piece. */
static gsize read_data(VialMultipart *multipart, const char *bytes, gsize size)
{
	const char *at = bytes, *stop = bytes + size;

	if (multipart->n_matched > 0)
		return continue_match(multipart, bytes, size);
	while ((at = memchr(at, '\r', (gsize)(stop - at)))) {
		gsize length = MIN(multipart->delimiter_size, (gsize)(stop - at));

		if (memcmp(at, multipart->delimiter, length) == 0) {
			multipart->n_matched = length;
			stop = at;
			break;
		}
		at++;
	}
	size = (gsize)(stop - bytes) + multipart->n_matched;
	tell_data(multipart, bytes, (gsize)(stop - bytes));
	return size;
}

/* Up to and with `stop`, which is TRUE when it is there. */
static gboolean read_line(VialMultipart *multipart, const char *bytes, gsize size, const char *stop, gsize *out_used)
{
	gsize stop_size = strlen(stop);

	for (*out_used = 0; *out_used < size;) {
		GString *line = multipart->line;

		g_string_append_c(line, bytes[(*out_used)++]);
		if (line->len >= stop_size && memcmp(line->str + line->len - stop_size, stop, stop_size) == 0) {
			g_string_truncate(line, line->len - stop_size);
			return TRUE;
		}
		if (line->len > VIAL_MULTIPART_HEADER_MAX_BYTES) {
			fail(multipart, "the header of a part has more than " G_STRINGIFY(VIAL_MULTIPART_HEADER_MAX_BYTES) " bytes");
			return FALSE;
		}
	}
	return FALSE;
}

static gsize read_delimited(VialMultipart *multipart, const char *bytes, gsize size)
{
	GString *line = multipart->line;
	gsize used;

	if (line->len == 1 && line->str[0] == '-' && bytes[0] == '-') {
		multipart->state = EPILOGUE;
		return 1;
	}
	if (!read_line(multipart, bytes, line->len == 0 ? 1 : size, "\r\n", &used))
		return used;
	if (strspn(line->str, " \t") != line->len) {
		fail(multipart, "a boundary is followed by something else than the line's end");
		return used;
	}
	/* A header that is empty ends with the empty line alone. */
	g_string_assign(line, "\r\n");
	multipart->state = HEADER;
	return used;
}

static gsize read_header(VialMultipart *multipart, const char *bytes, gsize size)
{
	gsize used;

	if (read_line(multipart, bytes, size, "\r\n\r\n", &used))
		begin_part(multipart);
	return used;
}

static gsize step(VialMultipart *multipart, const char *bytes, gsize size)
{
	switch (multipart->state) {
	case PREAMBLE:
	case DATA:
		if (multipart->n_matched < multipart->delimiter_size)
			return read_data(multipart, bytes, size);
		end_part(multipart); /* the whole delimiter came with the data before it */
		return 0;
	case DELIMITED:
		return read_delimited(multipart, bytes, size);
	case HEADER:
		return read_header(multipart, bytes, size);
	default:
		return size;
	}
}

static gboolean can_go_on(const VialMultipart *multipart)
{
	return multipart->state != ENDED && !multipart->is_full;
}

static void settle(VialMultipart *multipart)
{
	if (multipart->state == EPILOGUE)
		end(multipart, NULL);
	else
		fail(multipart, multipart->n_parts == 0 ? "the boundary that the request's Content-Type names is not in it"
		                                        : "it ends before its last boundary");
}

/* FALSE: the sink has enough. What it then did not get is kept. *out_is_over: it has got its `end`, or has freed us. */
static gboolean process(VialMultipart *multipart, const char *bytes, gsize size, gboolean *out_is_over)
{
	gsize used = 0;
	gboolean is_full;

	multipart->is_busy = TRUE;
	while (used < size && can_go_on(multipart))
		used += step(multipart, bytes + used, size - used);
	if (multipart->is_finished && used == size && can_go_on(multipart))
		settle(multipart);
	multipart->is_busy = FALSE;
	*out_is_over = multipart->state == ENDED;
	is_full = multipart->is_full && !*out_is_over;
	if (is_full)
		g_byte_array_append(multipart->waiting, (const guint8 *)bytes + used, (guint)(size - used));
	if (multipart->is_freed)
		destroy(multipart);
	return !is_full;
}

gboolean vial_multipart_push(VialMultipart *multipart, const void *bytes, gsize size)
{
	gboolean is_over;

	if (multipart->state == ENDED)
		return TRUE;
	if (multipart->is_full) {
		g_byte_array_append(multipart->waiting, bytes, (guint)size);
		return FALSE;
	}
	return process(multipart, bytes, size, &is_over);
}

gboolean vial_multipart_resume(VialMultipart *multipart)
{
	g_autoptr(GByteArray) waiting = NULL;
	gboolean is_over;

	if (multipart->is_busy)
		multipart->was_resumed = TRUE;
	if (multipart->is_busy || multipart->state == ENDED)
		return FALSE;
	multipart->is_full = FALSE;
	waiting = g_steal_pointer(&multipart->waiting);
	multipart->waiting = g_byte_array_new();
	return process(multipart, (const char *)waiting->data, waiting->len, &is_over) && !is_over;
}

void vial_multipart_finish(VialMultipart *multipart)
{
	gboolean is_over;

	multipart->is_finished = TRUE;
	if (can_go_on(multipart))
		process(multipart, NULL, 0, &is_over);
}
