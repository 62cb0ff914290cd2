/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: a form in a body. The first byte says in which pieces it comes and when the sink has enough; whatever these are, the same is heard,
 * the names are UTF-8, and it ends once. The bytes are also expanded as gzip, with the form reader behind it.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "http/inflate.h"
#include "http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct {
	GString *heard;
	unsigned fullness, n_calls, n_ends;
	gboolean is_in_part;
	VialMultipart *multipart;
	VialInflate *inflater;
} Sink;

static gboolean is_full(Sink *sink)
{
	assert(sink->n_ends == 0);
	return sink->fullness && ++sink->n_calls % sink->fullness == 0;
}

static gboolean on_begin(const VialMultipartPart *part, gpointer data)
{
	Sink *sink = data;

	assert(!sink->is_in_part && g_utf8_validate(part->name, -1, NULL));
	assert(!part->filename || g_utf8_validate(part->filename, -1, NULL));
	assert(!part->content_type || g_utf8_validate(part->content_type, -1, NULL));
	sink->is_in_part = TRUE;
	g_string_append_printf(sink->heard, "<%s|%s|%s>", part->name, part->filename, part->content_type);
	return is_full(sink);
}

static gboolean on_data(const void *data, gsize size, gpointer user)
{
	Sink *sink = user;

	assert(sink->is_in_part && size > 0);
	g_string_append_len(sink->heard, data, (gssize)size);
	return is_full(sink);
}

static gboolean on_part_end(gpointer data)
{
	Sink *sink = data;

	assert(sink->is_in_part);
	sink->is_in_part = FALSE;
	g_string_append_c(sink->heard, ';');
	return is_full(sink);
}

static void on_end(const GError *error, gpointer data)
{
	Sink *sink = data;

	assert(sink->n_ends++ == 0 && (error || !sink->is_in_part));
	g_string_append(sink->heard, error ? error->message : ".");
}

static const VialMultipartSink functions = { on_begin, on_data, on_part_end, on_end };

static char *hear(const uint8_t *bytes, size_t size, size_t piece, unsigned fullness)
{
	Sink sink = { .heard = g_string_new(NULL), .fullness = fullness };

	sink.multipart = vial_multipart_new("multipart/form-data; boundary=AaB03x", &functions, &sink, NULL);
	for (size_t at = 0; at < size; at += piece) {
		gboolean wants_more = vial_multipart_push(sink.multipart, bytes + at, MIN(piece, size - at));

		while (!wants_more && sink.n_ends == 0)
			wants_more = vial_multipart_resume(sink.multipart);
	}
	vial_multipart_finish(sink.multipart);
	for (size_t turn = 0; sink.n_ends == 0; turn++) {
		assert(turn <= size);
		vial_multipart_resume(sink.multipart);
	}
	vial_multipart_free(sink.multipart);
	return g_string_free(sink.heard, FALSE);
}

/* gzip in front */

static gboolean on_expanded(const void *bytes, gsize size, gpointer data)
{
	Sink *sink = data;

	assert(size > 0 && size <= VIAL_INFLATE_STEP_BYTES);
	return !vial_multipart_push(sink->multipart, bytes, size);
}

static void on_expanded_end(const GError *error, gpointer data)
{
	Sink *sink = data;

	if (!error)
		vial_multipart_finish(sink->multipart);
}

static void expand(const uint8_t *bytes, size_t size, unsigned fullness)
{
	static const VialInflateSink behind = { on_expanded, on_expanded_end };
	Sink sink = { .heard = g_string_new(NULL), .fullness = fullness };

	sink.multipart = vial_multipart_new("multipart/form-data; boundary=AaB03x", &functions, &sink, NULL);
	sink.inflater = vial_inflate_new(&behind, &sink);
	vial_inflate_push(sink.inflater, bytes, size);
	vial_inflate_finish(sink.inflater);
	for (unsigned turn = 0; turn < 1000; turn++)
		if (vial_multipart_resume(sink.multipart))
			vial_inflate_resume(sink.inflater);
	vial_inflate_free(sink.inflater);
	vial_multipart_free(sink.multipart);
	g_string_free(sink.heard, TRUE);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	g_autofree char *whole = NULL, *pieces = NULL;

	if (size == 0)
		return 0;
	whole = hear(bytes + 1, size - 1, size, 0);
	pieces = hear(bytes + 1, size - 1, 1 + bytes[0] % 16, bytes[0] / 16);
	assert(strcmp(whole, pieces) == 0);
	expand(bytes + 1, size - 1, bytes[0] / 16);
	return 0;
}
