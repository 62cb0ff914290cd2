/* SPDX-License-Identifier: Apache-2.0 */
/* gzip bodies, cut anywhere; damaged, cut short, and a bomb. */
#include "http/inflate.h"

#include <string.h>
#include <zlib.h>

#include "util/error.h"

typedef struct {
	GString *heard; /* the data, then "." or "!" */
	gsize n_bytes;
	gboolean is_counting; /* instead of keeping */
	gboolean is_always_full;
	gsize largest;
	VialInflate *inflater;
} Sink;

static gboolean on_data(const void *bytes, gsize size, gpointer data)
{
	Sink *sink = data;

	sink->n_bytes += size;
	sink->largest = MAX(sink->largest, size);
	if (!sink->is_counting)
		g_string_append_len(sink->heard, bytes, (gssize)size);
	return sink->is_always_full;
}

static void on_end(const GError *error, gpointer data)
{
	Sink *sink = data;

	g_string_append(sink->heard, error ? "!" : ".");
	if (error)
		g_string_append(sink->heard, error->message);
}

static const VialInflateSink functions = { on_data, on_end };

static GByteArray *deflated(const void *bytes, gsize size)
{
	GByteArray *out = g_byte_array_new();
	z_stream stream = { 0 };

	g_assert_cmpint(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), ==, Z_OK);
	g_byte_array_set_size(out, (guint)deflateBound(&stream, size) + 64);
	stream.next_in = (guint8 *)bytes;
	stream.avail_in = (unsigned)size;
	stream.next_out = out->data;
	stream.avail_out = out->len;
	g_assert_cmpint(deflate(&stream, Z_FINISH), ==, Z_STREAM_END);
	g_byte_array_set_size(out, (guint)stream.total_out);
	deflateEnd(&stream);
	return out;
}

static char *hear(const guint8 *bytes, gsize size, gsize piece, gboolean is_always_full)
{
	Sink sink = { .heard = g_string_new(NULL), .is_always_full = is_always_full };

	sink.inflater = vial_inflate_new(&functions, &sink);
	for (gsize at = 0; at < size; at += piece) {
		gboolean wants_more = vial_inflate_push(sink.inflater, bytes + at, MIN(piece, size - at));

		for (int turn = 0; !wants_more && turn < 100; turn++)
			wants_more = vial_inflate_resume(sink.inflater);
	}
	vial_inflate_finish(sink.inflater);
	for (int turn = 0; turn < 100; turn++)
		vial_inflate_resume(sink.inflater);
	vial_inflate_free(sink.inflater);
	return g_string_free(sink.heard, FALSE);
}

static void expect(const GByteArray *body, const char *expected)
{
	for (gsize piece = 1; piece <= body->len + 1; piece++) {
		g_autofree char *heard = hear(body->data, body->len, piece, FALSE), *slow = hear(body->data, body->len, piece, TRUE);

		g_assert_cmpstr(heard, ==, expected);
		g_assert_cmpstr(slow, ==, expected);
	}
}

static void test_expands(void)
{
	g_autoptr(GByteArray) one = deflated("Gr\xc3\xbc\xc3\x9f"
	                                     "e",
	                                     7),
			      two = deflated(" and more", 9), none = deflated("", 0);

	expect(one, "Gr\xc3\xbc\xc3\x9f"
	            "e.");
	expect(none, ".");
	g_byte_array_append(one, none->data, none->len);
	g_byte_array_append(one, two->data, two->len);
	expect(one, "Gr\xc3\xbc\xc3\x9f"
	            "e and more.");
}

/* How much of it is heard before is not promised. */
static void expect_problem(const GByteArray *body, const char *sentence)
{
	for (gsize piece = 1; piece <= body->len + 1; piece++) {
		g_autofree char *heard = hear(body->data, body->len, piece, piece % 2);

		g_assert_true(g_str_has_suffix(heard, sentence));
	}
}

static void test_refuses(void)
{
	g_autoptr(GByteArray) whole = deflated("some text", 9), more = deflated("some text", 9), empty = g_byte_array_new(),
			      wrong = deflated("some text", 9);

	g_byte_array_set_size(whole, whole->len - 1);
	expect_problem(whole, "!the body is not valid gzip: it ends too soon");
	expect_problem(empty, "!the body is not valid gzip: it ends too soon");
	wrong->data[wrong->len - 8] ^= 1; /* its checksum */
	expect_problem(wrong, "!the body is not valid gzip: it is damaged");
	g_byte_array_append(more, (const guint8 *)"rubbish", 7);
	expect_problem(more, "!the body is not valid gzip: it is damaged");
}

static void test_a_bomb_is_expanded_in_steps(void)
{
	gsize size = 64 * 1024 * 1024;
	g_autofree void *zeros = g_malloc0(size);
	g_autoptr(GByteArray) bomb = deflated(zeros, size);
	Sink sink = { .heard = g_string_new(NULL), .is_counting = TRUE, .is_always_full = TRUE };
	gsize before;

	sink.inflater = vial_inflate_new(&functions, &sink);
	g_assert_false(vial_inflate_push(sink.inflater, bomb->data, bomb->len));
	g_assert_cmpuint(sink.n_bytes, ==, VIAL_INFLATE_STEP_BYTES); /* nothing more before it is asked for */
	vial_inflate_finish(sink.inflater);
	do {
		before = sink.n_bytes;
		vial_inflate_resume(sink.inflater);
	} while (sink.n_bytes > before);
	g_assert_cmpuint(sink.n_bytes, ==, size);
	g_assert_cmpuint(sink.largest, <=, VIAL_INFLATE_STEP_BYTES);
	g_assert_cmpstr(sink.heard->str, ==, ".");
	vial_inflate_free(sink.inflater);
	g_string_free(sink.heard, TRUE);
}

static void test_knows_when_it_is_asked(void)
{
	static const struct {
		const char *encoding;
		gboolean is_valid, is_asked;
	} headers[] = { { NULL, TRUE, FALSE },  { "", TRUE, FALSE },      { "identity", TRUE, FALSE }, { "gzip", TRUE, TRUE },
		        { "GZIP", TRUE, TRUE }, { "x-gzip", TRUE, TRUE }, { "br", FALSE, FALSE },      { "gzip, gzip", FALSE, FALSE } };

	for (gsize i = 0; i < G_N_ELEMENTS(headers); i++) {
		gboolean is_asked = FALSE;

		g_assert_cmpint(vial_inflate_is_asked(headers[i].encoding, &is_asked, NULL), ==, headers[i].is_valid);
		g_assert_cmpint(is_asked, ==, headers[i].is_asked);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/inflate/expands", test_expands);
	g_test_add_func("/inflate/refuses", test_refuses);
	g_test_add_func("/inflate/a-bomb-is-expanded-in-steps", test_a_bomb_is_expanded_in_steps);
	g_test_add_func("/inflate/knows-when-it-is-asked", test_knows_when_it_is_asked);
	return g_test_run();
}
