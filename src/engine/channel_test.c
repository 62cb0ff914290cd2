/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that travel with a call to the host process: all of them, in order, with its bytes and with nobody else's. */
#include "engine/channel.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/channel/descriptors come with their call", test_descriptors_come_with_their_call);
	g_test_add_func("/channel/descriptors wait for room", test_descriptors_wait_for_room);
	return g_test_run();
}
