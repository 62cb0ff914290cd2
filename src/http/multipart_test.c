/* SPDX-License-Identifier: Apache-2.0 */
/* Forms as clients write them, and as nobody should; cut anywhere, and with a sink that has enough at any time. */
#include "http/multipart.h"

#include <string.h>

#include "util/error.h"

#define TYPE "multipart/form-data; boundary=AaB03x"

typedef struct {
	GString *heard; /* "name|filename|type:" data ";" ... "." or "!" and the error */
	guint fullness; /* every so many calls it has enough; 0: never */
	guint n_calls;
	gboolean resumes_within, frees_within;
	VialMultipart *multipart;
} Sink;

static gboolean told(Sink *sink)
{
	if (sink->frees_within) {
		vial_multipart_free(sink->multipart);
		return TRUE;
	}
	if (sink->fullness == 0 || ++sink->n_calls % sink->fullness != 0)
		return FALSE;
	if (sink->resumes_within)
		g_assert_false(vial_multipart_resume(sink->multipart));
	return TRUE;
}

static gboolean on_begin(const VialMultipartPart *part, gpointer data)
{
	Sink *sink = data;

	g_string_append_printf(sink->heard, "%s|%s|%s:", part->name, part->filename ? part->filename : "-",
	                       part->content_type ? part->content_type : "-");
	return told(sink);
}

static gboolean on_data(const void *bytes, gsize size, gpointer data)
{
	Sink *sink = data;

	g_string_append_len(sink->heard, bytes, (gssize)size);
	return told(sink);
}

static gboolean on_part_end(gpointer data)
{
	Sink *sink = data;

	g_string_append_c(sink->heard, ';');
	return told(sink);
}

static void on_end(const GError *error, gpointer data)
{
	Sink *sink = data;

	g_string_append(sink->heard, error ? "!" : ".");
	if (error)
		g_string_append(sink->heard, error->message);
}

static const VialMultipartSink functions = { on_begin, on_data, on_part_end, on_end };

/* What is heard of `body`, pushed in pieces. */
static char *hear(const char *content_type, const char *body, gsize size, gsize piece, guint fullness, gboolean resumes_within)
{
	Sink sink = { .heard = g_string_new(NULL), .fullness = fullness, .resumes_within = resumes_within };
	gsize n_heard;

	sink.multipart = vial_multipart_new(content_type, &functions, &sink, NULL);
	g_assert_nonnull(sink.multipart);
	for (gsize at = 0; at < size; at += piece) {
		gboolean wants_more = vial_multipart_push(sink.multipart, body + at, MIN(piece, size - at));

		while (!wants_more && !strpbrk(sink.heard->str, "!.")) {
			n_heard = sink.heard->len;
			wants_more = vial_multipart_resume(sink.multipart);
			g_assert_true(wants_more || sink.heard->len > n_heard);
		}
	}
	vial_multipart_finish(sink.multipart);
	for (int turn = 0; turn < 100; turn++)
		vial_multipart_resume(sink.multipart);
	vial_multipart_free(sink.multipart);
	return g_string_free(sink.heard, FALSE);
}

static void expect_of(const char *content_type, const char *body, gsize size, const char *expected)
{
	for (gsize piece = 1; piece <= size + 1; piece++) {
		for (guint fullness = 0; fullness < 3; fullness++) {
			g_autofree char *heard = hear(content_type, body, size, piece, fullness, FALSE),
					*again = hear(content_type, body, size, piece, fullness, TRUE);

			g_assert_cmpstr(heard, ==, expected);
			g_assert_cmpstr(again, ==, expected);
		}
	}
}

static void expect(const char *body, const char *expected)
{
	expect_of(TYPE, body, strlen(body), expected);
}

static void test_reads_parts(void)
{
	expect("--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n"
	       "--AaB03x\r\ncontent-disposition:form-data;name=f; filename=\"x.txt\"\r\nContent-Type: text/plain\r\nX-Other: "
	       "y\r\n\r\ntwo\r\nlines\r\n"
	       "--AaB03x--\r\n",
	       "a|-|-:one;f|x.txt|text/plain:two\r\nlines;.");
	expect("preamble\r\n--AaB03\r\n--AaB03x  \r\nContent-Disposition: form-data; name=e\r\n\r\n\r\n--AaB03x--\r\nepilogue\r\n--AaB03x\r\n",
	       "e|-|-:;.");
	/* What looks like a boundary, nearly. */
	expect("--AaB03x\r\nContent-Disposition: form-data; name=d\r\n\r\n\r\r\n\r\n--AaB03y\r\n--AaB0\r\n--\r\n-\n--AaB03x\r\r\n--AaB03x--",
	       "d|-|-:\r\r\n\r\n--AaB03y\r\n--AaB0\r\n--\r\n-\n--AaB03x\r;.");
	expect("--AaB03x--\r\n", ".");
}

static void test_reads_names(void)
{
	static const char *const names[][2] = {
		{ "name=\"a b\"; filename=\"dir/sub/\xc3\xbc \xf0\x9f\x8e\x89.txt\"", "a b|dir/sub/\xc3\xbc \xf0\x9f\x8e\x89.txt|-:;." },
		{ "name=f; filename=\"a \\\"quoted\\\" \\\\ name\"", "f|a \"quoted\" \\ name|-:;." },
		{ "name=f; filename=\"a %22quoted%22 100%25\"", "f|a \"quoted\" 100%25|-:;." },
		{ "name=f; filename=\"C:\\temp\\x; y=z\"", "f|C:\\temp\\x; y=z|-:;." },
		{ "name=f; filename=plain.txt ;", "f|plain.txt|-:;." },
		{ "name=f; filename=\"fallback\"; filename*=UTF-8''%e2%82%ac%20rates", "f|\xe2\x82\xac rates|-:;." },
		{ "filename*=utf-8'en'dir%2Fa; name=f", "f|dir/a|-:;." },
		{ "name*=utf-8''%C3%BC; filename=\"\"", "\xc3\xbc||-:;." },
		{ "name=f;\r\n filename=folded", "f|folded|-:;." },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *body = g_strdup_printf("--AaB03x\r\nContent-Disposition: form-data; %s\r\n\r\n\r\n--AaB03x--\r\n", names[i][0]);

		expect(body, names[i][1]);
	}
}

static void test_reads_bytes(void)
{
	static const char body[] = "--AaB03x\r\nContent-Disposition: form-data; name=b\r\n\r\n\0\xff\r\0\n--AaB03x\0\r\n--AaB03x--\r\n";
	Sink sink = { .heard = g_string_new(NULL) };

	sink.multipart = vial_multipart_new(TYPE, &functions, &sink, NULL);
	g_assert_true(vial_multipart_push(sink.multipart, body, sizeof(body) - 1));
	vial_multipart_finish(sink.multipart);
	g_assert_cmpmem(sink.heard->str, sink.heard->len, "b|-|-:\0\xff\r\0\n--AaB03x\0;.", 22);
	vial_multipart_free(sink.multipart);
	g_string_free(sink.heard, TRUE);
}

static void test_reads_boundaries(void)
{
	static const char *const good[] = { "multipart/form-data; boundary=\"a b\"", "Multipart/Form-Data;charset=utf-8;BOUNDARY=\"a b\"" };
	static const char *const bad[] = { NULL,
		                           "",
		                           "text/plain",
		                           "multipart/mixed; boundary=x",
		                           "multipart/form-data",
		                           "multipart/form-data; boundary=",
		                           "multipart/form-data; boundary=\"a",
		                           "multipart/form-data; boundary=\"a \"",
		                           "multipart/form-datax; boundary=a",
		                           "multipart/form-data; boundary=a; boundary=b",
		                           "multipart/form-data; boundary=\xc3\xbc",
		                           "multipart/form-data; boundary=12345678901234567890123456789012345678901234567890123456789012345678901" };

	for (gsize i = 0; i < G_N_ELEMENTS(good); i++) {
		static const char body[] = "--a b\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n--a b--";

		expect_of(good[i], body, strlen(body), "x|-|-:1;.");
	}
	for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
		g_autoptr(GError) error = NULL;

		g_assert_null(vial_multipart_new(bad[i], &functions, NULL, &error));
		g_assert_error(error, VIAL_ERROR, VIAL_ERROR_INVALID);
	}
}

#define WRONG "!the form in the body is not valid: "

static void test_refuses(void)
{
	static const char *const wrong[][2] = {
		{ "", WRONG "the boundary that the request's Content-Type names is not in it" },
		{ "nothing of the kind", WRONG "the boundary that the request's Content-Type names is not in it" },
		{ "--AaB03x\r\nContent-Disposition: form-data; name=a\r\n\r\nabc", "a|-|-:abc" WRONG "it ends before its last boundary" },
		{ "--AaB03x\r\nContent-Dispo", WRONG "the boundary that the request's Content-Type names is not in it" },
		{ "--AaB03xyz\r\n\r\n", WRONG "a boundary is followed by something else than the line's end" },
		{ "--AaB03x\r\n\r\nabc\r\n--AaB03x--", WRONG "a part has no Content-Disposition" },
		{ "--AaB03x\r\nContent-Disposition: form-data\r\n\r\n", WRONG "a part's Content-Disposition must be form-data with a name" },
		{ "--AaB03x\r\nContent-Disposition: attachment; name=a\r\n\r\n", WRONG "a part's Content-Disposition must be form-data with a name" },
		{ "--AaB03x\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n",
		  WRONG "a part's Content-Disposition must be form-data with a name" },
		{ "--AaB03x\r\nContent-Disposition: form-data; name=\"a\r\n\r\n",
		  WRONG "a part's Content-Disposition must be form-data with a name" },
		{ "--AaB03x\r\nContent-Disposition: form-data; name*=UTF-8''%00\r\n\r\n",
		  WRONG "a part's Content-Disposition must be form-data with a name" },
		{ "--AaB03x\r\nContent-Disposition: form-data; name*=UTF-8''%ff\r\n\r\n", WRONG "a part's name must be UTF-8" },
		{ "--AaB03x\r\nContent-Disposition: form-data; name=\xff\r\n\r\n", WRONG "a part's header must be UTF-8 without NUL" },
		{ "--AaB03x\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\n",
		  WRONG "a part's Content-Transfer-Encoding must be binary" },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++)
		expect(wrong[i][0], wrong[i][1]);
}

static void test_has_limits(void)
{
	g_autoptr(GString) many = g_string_new(NULL), longer = g_string_new("--AaB03x\r\nX-Long: ");
	g_autofree char *heard = NULL, *heard_longer = NULL;

	for (int i = 0; i <= VIAL_MULTIPART_MAX_PARTS; i++)
		g_string_append(many, "--AaB03x\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n");
	heard = hear(TYPE, many->str, many->len, 65536, 0, FALSE);
	g_assert_true(g_str_has_suffix(heard, ";" WRONG "it has more than 10000 parts"));
	for (int i = 0; i < VIAL_MULTIPART_HEADER_MAX_BYTES; i++)
		g_string_append_c(longer, 'x');
	heard_longer = hear(TYPE, longer->str, longer->len, 65536, 0, FALSE);
	g_assert_true(g_str_has_prefix(heard_longer, WRONG "the header of a part has more than"));
}

static void test_may_be_freed_by_its_sink(void)
{
	static const char body[] = "--AaB03x\r\nContent-Disposition: form-data; name=a\r\n\r\none\r\n--AaB03x--\r\n";
	Sink sink = { .heard = g_string_new(NULL), .frees_within = TRUE };

	sink.multipart = vial_multipart_new(TYPE, &functions, &sink, NULL);
	g_assert_true(vial_multipart_push(sink.multipart, body, strlen(body)));
	g_assert_cmpstr(sink.heard->str, ==, "a|-|-:");
	g_string_free(sink.heard, TRUE);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/multipart/reads-parts", test_reads_parts);
	g_test_add_func("/multipart/reads-names", test_reads_names);
	g_test_add_func("/multipart/reads-bytes", test_reads_bytes);
	g_test_add_func("/multipart/reads-boundaries", test_reads_boundaries);
	g_test_add_func("/multipart/refuses", test_refuses);
	g_test_add_func("/multipart/has-limits", test_has_limits);
	g_test_add_func("/multipart/may-be-freed-by-its-sink", test_may_be_freed_by_its_sink);
	return g_test_run();
}
