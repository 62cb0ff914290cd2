/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the agent's two strangers. An input that begins with "PIPE" is what a kernel writes to its message pipe, in pieces of the length that
 * its fifth byte says; what is decoded of it must keep the limits of kernelmsg.h and bundle.h. Any other input is the host's:
 *
 * The agent's side of the wire. The input is a sequence of frames as the host would send them; they go through the real dispatch, HELLO,
 * the op table and every handler's reading of its request. What the agent answers must be well-formed frames within the credit it was given.
 *
 * The handlers must not touch the machine that the fuzzer runs on, so what would is replaced at link time (see meson.build): acting as a
 * user fails, which ends every file operation before its first system call; connections are refused; identity and clock stay.
 */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/bundle.h"
#include "agent/connection.h"
#include "agent/hello.h"
#include "agent/identity.h"
#include "agent/kernelpipe.h"
#include "agent/loop.h"
#include "agent/streams.h"
#include "agent/text.h"
#include "agent/users.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int __wrap_vial_user_enter(const struct vial_user *user);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_sethostname(const char *name, size_t size);
int __wrap_clock_settime(clockid_t clock, const struct timespec *time);
int __wrap_vial_file_replace(const char *path, const char *text, size_t size, mode_t mode);
int __wrap_kill(pid_t pid, int signal);

int __wrap_vial_user_enter(const struct vial_user *user)
{
	return -EPERM;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
	errno = ECONNREFUSED;
	return -1;
}

int __wrap_sethostname(const char *name, size_t size)
{
	return 0;
}

int __wrap_clock_settime(clockid_t clock, const struct timespec *time)
{
	return 0;
}

int __wrap_vial_file_replace(const char *path, const char *text, size_t size, mode_t mode)
{
	return 0;
}

int __wrap_kill(pid_t pid, int signal)
{
	errno = ESRCH;
	return -1;
}

static int from_agent = -1;

static void start_agent(void)
{
	int in[2], out[2];

	assert(vial_loop_init() == 0 && vial_identity_init() == 0);
	assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	assert(vial_connection_init(in[0], out[1]) == 0);
	from_agent = out[0];
	fcntl(from_agent, F_SETFL, O_NONBLOCK);
}

static void say_hello(void)
{
	char text[512], entropy[129];
	struct vial_wire_frame frame = { .type = VIAL_WIRE_HELLO, .epoch = 1, .payload = (uint8_t *)text };
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	memset(entropy, 'a', 128);
	entropy[128] = '\0';
	frame.length = (uint32_t)snprintf(text, sizeof(text),
	                                  "{\"version\":1,\"generation\":\"fuzz\",\"sandbox_id\":\"s\",\"hostname\":\"h\",\"wall_clock_ns\":"
	                                  "\"%lld%09ld\",\"entropy\":\"%s\"}",
	                                  (long long)now.tv_sec, now.tv_nsec, entropy);
	vial_connection_dispatch(&frame);
	assert(vial_hello_is_confirmed());
}

/* Takes everything the agent has to say. */
static void drain(void)
{
	struct vial_wire_reader reader;
	struct vial_wire_frame frame;
	bool has_more = true;

	assert(vial_wire_reader_init(&reader) == 0);
	for (int round = 0; round < 10000 && has_more; round++) {
		size_t space;
		ssize_t got;

		has_more = vial_connection_pump();
		while ((got = read(from_agent, vial_wire_reader_space(&reader, &space), space)) > 0) {
			int result;

			vial_wire_reader_filled(&reader, (size_t)got);
			while ((result = vial_wire_reader_next(&reader, &frame)) > 0)
				;
			assert(result == 0);
			has_more = true;
		}
	}
	assert(vial_wire_reader_is_at_boundary(&reader));
	vial_wire_reader_clear(&reader);
}

static unsigned depth_of(json_t *value)
{
	unsigned deepest = 0;
	const char *key;
	json_t *item;
	size_t i;

	json_array_foreach (value, i, item)
		deepest = depth_of(item) > deepest ? depth_of(item) : deepest;
	json_object_foreach (value, key, item)
		deepest = depth_of(item) > deepest ? depth_of(item) : deepest;
	return json_is_array(value) || json_is_object(value) ? deepest + 1 : 0;
}

static void check_message(const struct vial_message *message)
{
	json_t *data = json_object_get(message->json, "data"), *bundle, *value;
	const char *mime;
	bool is_cut;

	assert((message->type == VIAL_MESSAGE_REFUSED) == (message->problem != NULL));
	assert(depth_of(message->json) <= VIAL_MESSAGE_MAX_DEPTH);
	if (message->type == VIAL_MESSAGE_ERROR) {
		assert(json_string_length(json_object_get(message->json, "name")) <= 3 * VIAL_ERROR_NAME_BYTES);
		assert(vial_text_is_printable(json_string_value(json_object_get(message->json, "name"))));
	}
	if (message->type != VIAL_MESSAGE_RESULT)
		return;
	bundle = vial_bundle_check(data, &is_cut);
	assert(bundle && json_object_size(bundle) <= VIAL_BUNDLE_MAX_TYPES + 1);
	json_object_foreach (bundle, mime, value)
		assert(vial_bundle_is_mime(mime));
	json_decref(bundle);
}

static int read_pipe(const uint8_t *bytes, size_t size)
{
	struct vial_message_reader reader = { 0 };
	struct vial_message message;
	size_t piece = size > 0 ? (size_t)*bytes + 1 : 1;
	int fds[2], result = 0;

	assert(pipe2(fds, O_CLOEXEC) == 0);
	for (size_t at = 1; at < size && result >= 0; at += piece) {
		size_t part = size - at < piece ? size - at : piece;

		assert(write(fds[1], bytes + at, part) == (ssize_t)part);
		assert(vial_message_read(&reader, fds[0]) == (ssize_t)part);
		while ((result = vial_message_next(&reader, &message)) > 0) {
			check_message(&message);
			vial_message_clear(&message);
		}
	}
	vial_message_reader_clear(&reader);
	close(fds[0]);
	close(fds[1]);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (size > 4 && memcmp(bytes, "PIPE", 4) == 0)
		return read_pipe(bytes + 4, size - 4);
	while (from_agent < 0)
		start_agent();
	if (!vial_hello_is_confirmed())
		say_hello();
	while (size >= VIAL_WIRE_HEADER_BYTES) {
		struct vial_wire_frame frame;

		if (vial_wire_header_decode(bytes, &frame) < 0)
			break;
		bytes += VIAL_WIRE_HEADER_BYTES;
		size -= VIAL_WIRE_HEADER_BYTES;
		/* The last one may promise more than there is; most inputs would end here otherwise. */
		if (frame.length > size)
			frame.length = (uint32_t)size;
		if (frame.type == VIAL_WIRE_CREDIT && frame.length != 4)
			break;
		frame.payload = bytes;
		vial_connection_dispatch(&frame);
		bytes += frame.length;
		size -= frame.length;
		drain();
	}
	vial_connection_thaw();
	drain();
	vial_streams_drop_all();
	vial_connection_discard_output();
	assert(vial_streams_count() == 0);
	return 0;
}
