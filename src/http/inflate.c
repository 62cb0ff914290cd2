/* SPDX-License-Identifier: Apache-2.0 */
#include "http/inflate.h"

#include <zlib.h>

#include "util/error.h"

#define GZIP_WINDOW (15 + 16) /* zlib's way to say: gzip, and only gzip */

struct VialInflate {
	const VialInflateSink *sink;
	gpointer data;
	z_stream stream;
	gboolean is_between; /* members: one is complete, or none has begun */
	gboolean has_member;
	gboolean is_ended;    /* the sink's `end` was called, or it left */
	gboolean is_full;     /* the sink has enough */
	gboolean was_resumed; /* while its function ran */
	gboolean is_finished; /* there will be no more pushes */
	gboolean is_busy;     /* in process(), further up */
	gboolean is_freed;    /* meanwhile */
	GByteArray *waiting;  /* pushed, and not expanded yet */
	guint8 step[VIAL_INFLATE_STEP_BYTES];
};

gboolean vial_inflate_is_asked(const char *content_encoding, gboolean *out_is_asked, GError **error)
{
	gboolean is_gzip =
		content_encoding && (g_ascii_strcasecmp(content_encoding, "gzip") == 0 || g_ascii_strcasecmp(content_encoding, "x-gzip") == 0);

	if (content_encoding && *content_encoding && !is_gzip && g_ascii_strcasecmp(content_encoding, "identity") != 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "the body's Content-Encoding must be gzip, or none");
	*out_is_asked = is_gzip;
	return TRUE;
}

VialInflate *vial_inflate_new(const VialInflateSink *sink, gpointer data)
{
	VialInflate *inflater = g_new0(VialInflate, 1);

	inflater->sink = sink;
	inflater->data = data;
	inflater->is_between = TRUE;
	inflater->waiting = g_byte_array_new();
	g_assert(inflateInit2(&inflater->stream, GZIP_WINDOW) == Z_OK); /* else memory is out, which ends us everywhere */
	return inflater;
}

static void destroy(VialInflate *inflater)
{
	inflateEnd(&inflater->stream);
	g_byte_array_unref(inflater->waiting);
	g_free(inflater);
}

void vial_inflate_free(VialInflate *inflater)
{
	if (!inflater)
		return;
	inflater->is_ended = TRUE;
	inflater->is_freed = TRUE;
	if (!inflater->is_busy)
		destroy(inflater);
}

static void end(VialInflate *inflater, const char *problem)
{
	g_autoptr(GError) error = NULL;

	if (problem)
		vial_fail(&error, VIAL_ERROR_INVALID, "the body is not valid gzip: %s", problem);
	inflater->is_ended = TRUE;
	inflater->sink->end(error, inflater->data);
}

static gboolean can_go_on(const VialInflate *inflater)
{
	return !inflater->is_ended && !inflater->is_full;
}

/* One step. FALSE: there is no more without more bytes, or it has failed. */
static gboolean expand(VialInflate *inflater)
{
	z_stream *stream = &inflater->stream;
	gsize size;
	int result;

	/* Members may follow each other (RFC 1952, 2.2). */
	if (inflater->is_between && stream->avail_in == 0)
		return FALSE;
	if (inflater->is_between)
		inflateReset(stream);
	inflater->is_between = FALSE;
	inflater->has_member = TRUE;
	stream->next_out = inflater->step;
	stream->avail_out = sizeof(inflater->step);
	result = inflate(stream, Z_NO_FLUSH);
	if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
		end(inflater, "it is damaged");
		return FALSE;
	}
	inflater->is_between = result == Z_STREAM_END;
	size = sizeof(inflater->step) - stream->avail_out;
	if (size > 0) {
		gboolean is_full = inflater->sink->data(inflater->step, size, inflater->data);

		inflater->is_full = is_full && !inflater->was_resumed;
		inflater->was_resumed = FALSE;
	}
	/* A step that was filled may have more behind it, without more bytes. */
	return size > 0 || inflater->is_between;
}

/* FALSE: the sink has enough. What it then did not get is kept. *out_is_over: it has got its `end`, or has freed us. */
static gboolean process(VialInflate *inflater, const guint8 *bytes, gsize size, gboolean *out_is_over)
{
	gboolean is_full;

	inflater->stream.next_in = (guint8 *)bytes;
	inflater->stream.avail_in = (unsigned)size;
	inflater->is_busy = TRUE;
	while (can_go_on(inflater) && expand(inflater))
		;
	if (inflater->is_finished && can_go_on(inflater))
		end(inflater, inflater->is_between && inflater->has_member ? NULL : "it ends too soon");
	inflater->is_busy = FALSE;
	*out_is_over = inflater->is_ended;
	is_full = inflater->is_full && !*out_is_over;
	if (is_full)
		g_byte_array_append(inflater->waiting, inflater->stream.next_in, inflater->stream.avail_in);
	if (inflater->is_freed)
		destroy(inflater);
	return !is_full;
}

gboolean vial_inflate_push(VialInflate *inflater, const void *bytes, gsize size)
{
	gboolean is_over;

	if (inflater->is_ended)
		return TRUE;
	if (inflater->is_full) {
		g_byte_array_append(inflater->waiting, bytes, (guint)size);
		return FALSE;
	}
	return process(inflater, bytes, size, &is_over);
}

gboolean vial_inflate_resume(VialInflate *inflater)
{
	g_autoptr(GByteArray) waiting = NULL;
	gboolean is_over;

	if (inflater->is_busy)
		inflater->was_resumed = TRUE;
	if (inflater->is_busy || inflater->is_ended)
		return FALSE;
	inflater->is_full = FALSE;
	waiting = g_steal_pointer(&inflater->waiting);
	inflater->waiting = g_byte_array_new();
	return process(inflater, waiting->data, waiting->len, &is_over) && !is_over;
}

void vial_inflate_finish(VialInflate *inflater)
{
	gboolean is_over;

	inflater->is_finished = TRUE;
	if (can_go_on(inflater))
		process(inflater, NULL, 0, &is_over);
}
