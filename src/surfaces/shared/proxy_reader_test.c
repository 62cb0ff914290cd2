/* SPDX-License-Identifier: Apache-2.0 */
/* The response reader, byte by byte and all at once: whatever the cut, the outcome must be the same. */
#include "surfaces/shared/proxy_reader.h"

#include <string.h>

typedef struct {
	const char *name;
	const char *bytes;
	gboolean is_head;
	gboolean may_switch;
	const char *body; /* NULL: it must be broken */
	unsigned status;
	gint64 size;
} Case;

#define OK "HTTP/1.1 200 OK\r\n"

static const Case cases[] = {
	{ "fixed", OK "Content-Length: 5\r\n\r\nhello", .body = "hello", .status = 200, .size = 5 },
	{ "nothing", OK "Content-Length: 0\r\n\r\n", .body = "", .status = 200, .size = 0 },
	{ "until-close", OK "\r\nall of it", .body = "all of it", .status = 200, .size = -1 },
	{ "old", "HTTP/1.0 404 Not Found\n\nbare", .body = "bare", .status = 404, .size = -1 },
	{ "no-reason", "HTTP/1.1 299\r\nContent-Length: 1\r\n\r\nx", .body = "x", .status = 299, .size = 1 },
	{ "chunked", OK "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: t\r\n\r\n", .body = "abc0123456789",
	  .status = 200, .size = -1 },
	{ "head", OK "Content-Length: 5\r\n\r\n", .is_head = TRUE, .body = "", .status = 200, .size = 5 },
	{ "no-content", "HTTP/1.1 204 No Content\r\n\r\n", .body = "", .status = 204, .size = -1 },
	{ "not-modified", "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", .body = "", .status = 304, .size = 9 },
	{ "interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" OK "Content-Length: 1\r\n\r\nx", .body = "x", .status = 200,
	  .size = 1 },
	{ "same-length-twice", OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", .body = "x", .status = 200, .size = 1 },
	{ "switch", "HTTP/1.1 101 Switch\r\nUpgrade: websocket\r\n\r\n", .may_switch = TRUE, .body = "", .status = 101, .size = -1 },

	{ "switch-unasked", "HTTP/1.1 101 Switch\r\nUpgrade: websocket\r\n\r\n" },
	{ "empty", "" },
	{ "http-2", "HTTP/2 200\r\n\r\n" },
	{ "status-of-two", "HTTP/1.1 20 OK\r\n\r\n" },
	{ "status-of-four", "HTTP/1.1 2000 OK\r\n\r\n" },
	{ "status-600", "HTTP/1.1 600 OK\r\n\r\n" },
	{ "cut-head", "HTTP/1.1 200 OK\r\nA: b" },
	{ "cut-body", OK "Content-Length: 5\r\n\r\nhell" },
	{ "cut-chunk", OK "Transfer-Encoding: chunked\r\n\r\n3\r\nab" },
	{ "cut-trailer", OK "Transfer-Encoding: chunked\r\n\r\n0\r\n" },
	{ "two-lengths", OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy" },
	{ "length-and-chunked", OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
	{ "old-and-chunked", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
	{ "encoding-list", OK "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" },
	{ "encoding-twice", OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
	{ "length-negative", OK "Content-Length: -1\r\n\r\n" },
	{ "length-signed", OK "Content-Length: +1\r\n\r\nx" },
	{ "length-list", OK "Content-Length: 1, 1\r\n\r\nx" },
	{ "length-huge", OK "Content-Length: 99999999999999999999\r\n\r\n" },
	{ "no-colon", OK "nonsense\r\n\r\n" },
	{ "empty-name", OK ": x\r\n\r\n" },
	{ "space-in-name", OK "A : x\r\n\r\n" },
	{ "folded", OK "A: x\r\n y\r\n\r\n" },
	{ "control", OK "A: x\x01y\r\n\r\n" },
	{ "lone-return", OK "A: x\ry\r\n\r\n" },
	{ "chunk-size-none", OK "Transfer-Encoding: chunked\r\n\r\n\r\n" },
	{ "chunk-size-words", OK "Transfer-Encoding: chunked\r\n\r\nxyz\r\n" },
	{ "chunk-size-negative", OK "Transfer-Encoding: chunked\r\n\r\n-1\r\n" },
	{ "chunk-size-huge", OK "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" },
	{ "chunk-too-long", OK "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n" },
};

static void run_case(const Case *one, gsize step)
{
	g_autoptr(VialReplyReader) reader = vial_reply_reader_new(one->is_head, one->may_switch);
	g_autoptr(GString) body = g_string_new(NULL);
	const guint8 *next = (const guint8 *)one->bytes, *piece;
	gsize total = strlen(one->bytes), size;
	VialReplyEvent event = VIAL_REPLY_MORE;

	while (total > 0 && event != VIAL_REPLY_END && event != VIAL_REPLY_BROKEN) {
		gsize part = MIN(step, total);

		total -= part;
		while ((event = vial_reply_reader_next(reader, &next, &part, &piece, &size)) == VIAL_REPLY_HEAD || event == VIAL_REPLY_DATA)
			if (event == VIAL_REPLY_DATA)
				g_string_append_len(body, (const char *)piece, (gssize)size);
	}
	if (event == VIAL_REPLY_MORE)
		event = vial_reply_reader_finish(reader);
	if (!one->body) {
		g_assert_cmpint(event, ==, VIAL_REPLY_BROKEN);
		g_assert_nonnull(vial_reply_reader_error(reader));
		return;
	}
	g_assert_cmpint(event, ==, VIAL_REPLY_END);
	g_assert_cmpuint(vial_reply_reader_status(reader), ==, one->status);
	g_assert_cmpint(vial_reply_reader_size(reader), ==, one->size);
	g_assert_cmpstr(body->str, ==, one->body);
}

static void test_case(gconstpointer data)
{
	for (gsize step = 1; step < 80; step++)
		run_case(data, step);
	run_case(data, G_MAXSIZE);
}

static VialReplyEvent feed(VialReplyReader *reader, const char *text)
{
	const guint8 *next = (const guint8 *)text, *piece;
	gsize left = strlen(text), size;

	return vial_reply_reader_next(reader, &next, &left, &piece, &size);
}

static void test_limits(void)
{
	g_autoptr(VialReplyReader) long_line = vial_reply_reader_new(FALSE, FALSE);
	g_autoptr(VialReplyReader) many = vial_reply_reader_new(FALSE, FALSE);
	g_autoptr(VialReplyReader) interim = vial_reply_reader_new(FALSE, FALSE);
	g_autofree char *text = g_strnfill(VIAL_REPLY_MAX_HEAD_BYTES, 'a');
	VialReplyEvent event = VIAL_REPLY_MORE;

	g_assert_cmpint(feed(long_line, OK "A: "), ==, VIAL_REPLY_MORE);
	g_assert_cmpint(feed(long_line, text), ==, VIAL_REPLY_BROKEN);
	g_assert_cmpint(feed(many, OK), ==, VIAL_REPLY_MORE);
	for (int i = 0; i < VIAL_REPLY_MAX_HEADERS; i++)
		g_assert_cmpint(feed(many, "A: b\r\n"), ==, VIAL_REPLY_MORE);
	g_assert_cmpint(feed(many, "A: b\r\n"), ==, VIAL_REPLY_BROKEN);
	for (int i = 0; i <= VIAL_REPLY_MAX_INTERIM && event == VIAL_REPLY_MORE; i++)
		event = feed(interim, "HTTP/1.1 100 Continue\r\n\r\n");
	g_assert_cmpint(event, ==, VIAL_REPLY_BROKEN);
}

static void test_headers(void)
{
	g_autoptr(VialReplyReader) reader = vial_reply_reader_new(FALSE, FALSE);
	gsize count;

	g_assert_cmpint(feed(reader, OK "Set-Cookie: a=1\r\nSet-Cookie:b=2\t\r\nX-Tab: a\tb\r\nContent-Length: 0\r\n\r\n"), ==, VIAL_REPLY_HEAD);
	const VialReplyHeader *headers = vial_reply_reader_headers(reader, &count);
	g_assert_cmpuint(count, ==, 4);
	g_assert_cmpstr(headers[0].value, ==, "a=1");
	g_assert_cmpstr(headers[1].value, ==, "b=2");
	g_assert_cmpstr(vial_reply_reader_header(reader, "x-tab"), ==, "a b");
	g_assert_null(vial_reply_reader_header(reader, "absent"));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *name = g_strconcat("/reply/", cases[i].name, NULL);

		g_test_add_data_func(name, &cases[i], test_case);
	}
	g_test_add_func("/reply-limits", test_limits);
	g_test_add_func("/reply-headers", test_headers);
	return g_test_run();
}
