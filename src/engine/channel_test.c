/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that travel with a call to the host process: all of them, in order, with its bytes and with nobody else's. Questions that nobody
 * is there to answer. Guests and host processes that lie.
 */
#include "engine/channel.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/json.h"
#include "wire/wire.h"

#define MANY 129

static ino_t inode_of(int fd)
{
	struct stat info;

	g_assert_cmpint(fstat(fd, &info), ==, 0);
	return info.st_ino;
}

/* What one recvmsg(2) gives; returns how many descriptors came along. */
static guint receive(int fd, char *bytes, gsize size, gssize *out_got, int out_fds[MANY])
{
	union {
		char bytes[CMSG_SPACE(MANY * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec piece = { bytes, size };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = ancillary.bytes, .msg_controllen = sizeof ancillary.bytes };
	struct cmsghdr *header;
	guint count = 0;

	*out_got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	header = *out_got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header) {
		count = (guint)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(out_fds, CMSG_DATA(header), count * sizeof(int));
	}
	return count;
}

static void run_loop(void)
{
	while (g_main_context_iteration(NULL, FALSE))
		;
}

static void test_descriptors_come_with_their_call(void)
{
	static const VialChannelEvents none = { 0 };
	int ends[2], got_fds[MANY];
	ino_t sent[MANY];
	char bytes[4096];
	gssize got;
	guint count;
	VialChannel *channel;
	GArray *fds = vial_fds_new();

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
	channel = vial_channel_new(ends[0], &none, NULL);
	for (guint i = 0; i < MANY; i++) {
		int fd = memfd_create("test", MFD_CLOEXEC);

		sent[i] = inode_of(fd);
		g_array_append_val(fds, fd);
	}
	vial_channel_host_call(channel, json_pack("{s:s}", "op", "plain"), NULL, 1000, NULL, NULL);
	vial_channel_host_call(channel, json_pack("{s:s}", "op", "with"), fds, 1000, NULL, NULL);
	run_loop();
	count = receive(ends[1], bytes, sizeof bytes, &got, got_fds);
	g_assert_cmpint(got, >, VIAL_WIRE_HEADER_BYTES);
	g_assert_nonnull(memmem(bytes, (gsize)got, "plain", 5));
	if (count == 0) /* two writes may be read in one go or in two, but never the descriptors before their bytes */
		count = receive(ends[1], bytes, sizeof bytes, &got, got_fds);
	g_assert_cmpuint(count, ==, MANY);
	g_assert_nonnull(memmem(bytes, (gsize)got, "with", 4));
	for (guint i = 0; i < MANY; i++) {
		g_assert_cmpuint(inode_of(got_fds[i]), ==, sent[i]);
		close(got_fds[i]);
	}
	vial_channel_free(channel);
	close(ends[1]);
}

/* A socket that takes nothing more: what follows has to wait, and nothing may overtake the descriptors' frame. */
static void test_descriptors_wait_for_room(void)
{
	static const VialChannelEvents none = { 0 };
	g_autofree char *padding = g_strnfill(60000, 'x');
	g_autofree char *all = g_malloc(16 * 1024 * 1024);
	int ends[2], got_fds[MANY], fd = memfd_create("test", MFD_CLOEXEC);
	ino_t sent = inode_of(fd);
	gsize total = 0;
	guint seen = 0;
	GArray *fds = vial_fds_new();
	VialChannel *channel;

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
	channel = vial_channel_new(ends[0], &none, NULL);
	for (int i = 0; i < 20; i++)
		vial_channel_host_call(channel, json_pack("{s:s, s:s}", "op", "before", "padding", padding), NULL, 100000, NULL, NULL);
	g_array_append_val(fds, fd);
	vial_channel_host_call(channel, json_pack("{s:s}", "op", "with"), fds, 100000, NULL, NULL);
	vial_channel_host_call(channel, json_pack("{s:s}", "op", "after"), NULL, 100000, NULL, NULL);
	for (;;) {
		gssize got;

		run_loop();
		if (receive(ends[1], all + total, 65536, &got, got_fds) == 1) {
			g_assert_cmpuint(inode_of(got_fds[0]), ==, sent);
			close(got_fds[0]);
			seen++;
		}
		if (got <= 0)
			break;
		total += (gsize)got;
	}
	g_assert_cmpuint(seen, ==, 1);
	g_assert_true((char *)memmem(all, total, "\"with\"", 6) < (char *)memmem(all, total, "\"after\"", 7));
	vial_channel_free(channel);
	close(ends[1]);
}

/* A sandbox whose guest has just ended has no channel: whoever still asks hears so, later and once. */

typedef struct {
	guint answers;
	gboolean is_refused;
} Heard;

static void on_stream_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	Heard *heard = data;

	heard->answers++;
	heard->is_refused = !result && g_error_matches(error, VIAL_ERROR, VIAL_ERROR_UNAVAILABLE);
}

static void on_answer(json_t *result, const GError *error, gpointer data)
{
	on_stream_closed(NULL, result, error, data);
}

static void test_no_channel(void)
{
	static const VialStreamEvents events = { .closed = on_stream_closed };
	Heard opened = { 0 }, freed = { 0 }, called = { 0 };
	VialStream *stream = vial_stream_open(NULL, json_pack("{s:s}", "op", "exec"), &events, &opened);

	vial_stream_free(vial_stream_open(NULL, json_pack("{s:s}", "op", "exec"), &events, &freed));
	vial_channel_call(NULL, json_pack("{s:s}", "op", "metrics"), 60000, on_answer, &called);
	g_assert_cmpuint(opened.answers + called.answers, ==, 0);
	g_assert_cmpuint(vial_stream_room(stream), ==, 0);
	vial_stream_send_eof(stream, 0);
	vial_stream_send_event(stream, json_object());
	run_loop();
	g_assert_true(opened.is_refused && called.is_refused);
	g_assert_cmpuint(opened.answers, ==, 1);
	g_assert_cmpuint(called.answers, ==, 1);
	g_assert_cmpuint(freed.answers, ==, 0);
	vial_stream_free(stream);
}

/* Lies: each closes the channel, says what it was, and settles everybody who waits. */

typedef struct {
	VialChannel *channel;
	int guest; /* the other end */
	guint closed;
	char *reason;
	VialStream *opened;
	Heard stream;
} Liar;

static void on_channel_closed(VialChannel *channel, const GError *error, gpointer data)
{
	Liar *liar = data;

	liar->closed++;
	g_assert_error(error, VIAL_ERROR, VIAL_ERROR_GATEWAY);
	liar->reason = g_strdup(error->message);
}

/* One HELLO has been asked for and given, one stream is open, one is left by its owner. */
static void liar_init(Liar *liar)
{
	static const VialChannelEvents events = { .closed = on_channel_closed };
	static const VialStreamEvents stream_events = { .closed = on_stream_closed };
	int ends[2];

	*liar = (Liar){ 0 };
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
	liar->guest = ends[1];
	liar->channel = vial_channel_new(ends[0], &events, liar);
	vial_channel_send_hello(liar->channel, json_object());
	liar->opened = vial_stream_open(liar->channel, json_pack("{s:s}", "op", "exec"), &stream_events, &liar->stream);
	vial_stream_free(vial_stream_open(liar->channel, json_pack("{s:s}", "op", "exec"), &stream_events, NULL));
}

static void liar_clear(Liar *liar)
{
	vial_stream_free(liar->opened);
	vial_channel_free(liar->channel);
	close(liar->guest);
	g_free(liar->reason);
}

static void say(Liar *liar, guint32 stream, enum vial_wire_type type, guint8 sub, const void *payload, gsize size)
{
	struct vial_wire_frame frame = { .length = (guint32)size, .stream = stream, .type = (guint8)type, .channel = sub };
	guint8 header[VIAL_WIRE_HEADER_BYTES];

	vial_wire_header_encode(&frame, header);
	g_assert_cmpint(write(liar->guest, header, sizeof header), ==, sizeof header);
	g_assert_cmpint(write(liar->guest, payload, size), ==, (gssize)size);
	run_loop();
}

#define HELLO "{\"version\":1,\"generation\":\"g\",\"confirmed\":[]}"

static void test_lies(void)
{
	static const struct {
		guint32 stream;
		enum vial_wire_type type;
		const char *text, *reason;
	} lies[] = {
		{ 0, VIAL_WIRE_HELLO, HELLO, "a HELLO that nobody asked for" },
		{ 0, VIAL_WIRE_HELLO, "{\"version\":\"1\"}", "version" },
		{ 0, VIAL_WIRE_HELLO, "{\"version\":1,\"generation\":\"g\",\"confirmed\":[1]}", "confirmed" },
		{ 0, VIAL_WIRE_HELLO, "{\"version\":1,\"generation\":\"g\",\"confirmed\":[],\"wall_clock_ns\":\"-1\"}", "wall_clock_ns" },
		{ 0, VIAL_WIRE_HELLO, "[]", "HELLO" },
		{ 0, VIAL_WIRE_FREEZE, "", "a FREEZE that nobody asked for" },
		{ 0, VIAL_WIRE_PING, "", "only the host" },
		{ 1, VIAL_WIRE_CLOSE, "{}", "ok" },
		{ 1, VIAL_WIRE_CLOSE, "{\"ok\":1}", "ok" },
		{ 1, VIAL_WIRE_CLOSE, "nonsense", "ok" },
		{ 1, VIAL_WIRE_EVENT, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "event" },
		{ 1, VIAL_WIRE_OPEN, "{}", "only the host" },
		{ 1, VIAL_WIRE_CREDIT, "\xff\xff\xff\xff", "window" },
		{ 3, VIAL_WIRE_EVENT, "{}", "never opened" },
		{ VIAL_WIRE_STREAM_HOST, VIAL_WIRE_EVENT, "{\"event\":\"state\",\"state\":\"flying\"}", "state" },
		{ VIAL_WIRE_STREAM_HOST, VIAL_WIRE_EVENT, "{\"event\":\"state\",\"state\":-1}", "state" },
		{ VIAL_WIRE_STREAM_HOST, VIAL_WIRE_CLOSE, "{\"ok\":true,\"tag\":1}", "tag" },
		{ VIAL_WIRE_STREAM_HOST, VIAL_WIRE_CLOSE, "{\"ok\":true,\"tag\":-4294967295}", "tag" },
		{ VIAL_WIRE_STREAM_HOST, VIAL_WIRE_DATA, "{}", "neither its state nor an answer" },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(lies); i++) {
		Liar liar;

		liar_init(&liar);
		say(&liar, 0, VIAL_WIRE_HELLO, 0, HELLO, strlen(HELLO));
		g_assert_cmpuint(liar.closed, ==, 0);
		say(&liar, lies[i].stream, lies[i].type, 0, lies[i].text, strlen(lies[i].text));
		g_assert_cmpuint(liar.closed, ==, 1);
		g_assert_nonnull(strstr(liar.reason, "broke the protocol"));
		if (!strstr(liar.reason, lies[i].reason))
			g_error("lie %d: %s", (int)i, liar.reason);
		g_assert_cmpuint(liar.stream.answers, ==, 1);
		liar_clear(&liar);
	}
}

/* A stream ends with one CLOSE, whether its owner still listens or has left. */
static void test_second_close(void)
{
	for (guint32 stream = 1; stream <= 2; stream++) {
		Liar liar;

		liar_init(&liar);
		say(&liar, stream, VIAL_WIRE_CLOSE, 0, "{\"ok\":true}", 11);
		g_assert_cmpuint(liar.closed, ==, 0);
		say(&liar, stream, VIAL_WIRE_CLOSE, 0, "{\"ok\":true}", 11);
		g_assert_cmpuint(liar.closed, ==, 1);
		g_assert_nonnull(strstr(liar.reason, "had closed"));
		liar_clear(&liar);
	}
}

/* Kept for a slow client, say: nothing is granted again. */
static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
}

static void test_beyond_credit(void)
{
	g_autofree char *bytes = g_strnfill(VIAL_WIRE_MAX_PAYLOAD / 2, 'x');
	static const VialStreamEvents unread = { .data = on_data };
	Liar liar;
	VialStream *stream;

	liar_init(&liar);
	stream = vial_stream_open(liar.channel, json_pack("{s:s}", "op", "exec"), &unread, NULL);
	for (guint i = 0; i < VIAL_WIRE_INITIAL_CREDIT / (VIAL_WIRE_MAX_PAYLOAD / 2); i++)
		say(&liar, 3, VIAL_WIRE_DATA, 0, bytes, VIAL_WIRE_MAX_PAYLOAD / 2);
	g_assert_cmpuint(liar.closed, ==, 0);
	say(&liar, 3, VIAL_WIRE_DATA, 0, bytes, 1);
	g_assert_cmpuint(liar.closed, ==, 1);
	g_assert_nonnull(strstr(liar.reason, "more data than it was allowed"));
	vial_stream_free(stream);
	liar_clear(&liar);
}

/* What an owner finds absurd in an answer ends the channel too, but not under the owner's feet. */
static void test_owner_finds_a_lie(void)
{
	Liar liar;

	liar_init(&liar);
	vial_channel_violation(liar.channel, "an answer without its entry");
	vial_channel_violation(liar.channel, "something later");
	vial_channel_violation(NULL, "nobody");
	g_assert_cmpuint(liar.closed, ==, 0);
	run_loop();
	g_assert_cmpuint(liar.closed, ==, 1);
	g_assert_cmpstr(liar.reason, ==, "its agent broke the protocol: an answer without its entry");
	liar_clear(&liar);
}

/* The number of whoever speaks first is the kernel's word. */
static void test_peer(void)
{
	Liar liar;

	liar_init(&liar);
	g_assert_cmpint(vial_channel_peer(liar.channel), ==, 0);
	say(&liar, VIAL_WIRE_STREAM_HOST, VIAL_WIRE_EVENT, 0, "{\"event\":\"state\",\"state\":\"new\",\"pid\":1}", 41);
	g_assert_cmpint(vial_channel_peer(liar.channel), ==, getpid());
	liar_clear(&liar);
}

static void test_texts(void)
{
	g_autofree char *many = g_strnfill(VIAL_MESSAGE_TEXT_BYTES - 1, 'x');
	g_autofree char *with_tail = g_strconcat(many, "\xe2\x82\xac", NULL);
	g_autoptr(json_t) long_text = json_string(with_tail), rude = json_string("a\x1b]0;b\x07\nc\xc2\x9b"), number = json_integer(7);
	g_autofree char *cut = vial_message_text(long_text, "-"), *tame = vial_message_text(rude, "-"), *none = vial_message_text(number, "-");

	g_assert_cmpstr(cut, ==, many);
	g_assert_cmpstr(tame, ==, "a ]0;b  c ");
	g_assert_cmpstr(none, ==, "-");
}

static void test_bounds(void)
{
	g_autofree char *commas = g_strnfill(1000000, ','), *text = g_strconcat("{\"a\":\"\\\"", commas, "\"}", NULL);
	g_autofree char *values = g_strconcat("{\"a\":[0", commas, "0]}", NULL);

	g_assert_true(vial_message_is_bounded(text, strlen(text)));
	g_assert_false(vial_message_is_bounded(values, strlen(values)));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/channel/descriptors come with their call", test_descriptors_come_with_their_call);
	g_test_add_func("/channel/descriptors wait for room", test_descriptors_wait_for_room);
	g_test_add_func("/channel/a sandbox without a channel is reported as unavailable", test_no_channel);
	g_test_add_func("/channel/a lie ends it and is named", test_lies);
	g_test_add_func("/channel/a second CLOSE is a lie", test_second_close);
	g_test_add_func("/channel/more than was granted is a lie", test_beyond_credit);
	g_test_add_func("/channel/an owner finds a lie", test_owner_finds_a_lie);
	g_test_add_func("/channel/the kernel says who speaks", test_peer);
	g_test_add_func("/channel/texts are tamed", test_texts);
	g_test_add_func("/channel/values are counted", test_bounds);
	return g_test_run();
}
