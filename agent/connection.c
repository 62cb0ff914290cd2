/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See connection.h. The output buffer grows only for frames that nobody may refuse (CLOSE, PONG); producers are held back by
 * OUTPUT_HIGH_BYTES. The host's end closing means that nobody can ever reach this sandbox again, so the agent, and with it
 * the sandbox, ends; so does a broken frame, because what follows it cannot be understood.
 */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hello.h"
#include "log.h"
#include "loop.h"
#include "streams.h"

#define OUTPUT_HIGH_BYTES (768u * 1024u)
#define OUTPUT_CAPACITY (2u * 1024u * 1024u)

static struct vial_wire_reader reader;
static struct vial_watch in_watch, out_watch;
static int output_fd = -1;

static struct {
	uint8_t *bytes;
	size_t start, end, capacity;
} output;

static enum { THAWED, FREEZING, FROZEN } freeze_state;
/* While FREEZING: how much of the queue, up to and with the FREEZE frame, is still to be written. */
static size_t freeze_left_bytes;

static size_t queued_bytes(void)
{
	return output.end - output.start;
}

size_t vial_connection_room(void)
{
	if (freeze_state != THAWED || queued_bytes() >= OUTPUT_HIGH_BYTES)
		return 0;
	return OUTPUT_HIGH_BYTES - queued_bytes();
}

bool vial_connection_is_frozen(void)
{
	return freeze_state != THAWED;
}

static int make_space(size_t size_bytes)
{
	size_t capacity = output.capacity;
	uint8_t *bytes;

	if (output.capacity - output.end >= size_bytes)
		return 0;
	if (output.start > 0) {
		memmove(output.bytes, output.bytes + output.start, queued_bytes());
		output.end -= output.start;
		output.start = 0;
	}
	while (capacity - output.end < size_bytes)
		capacity *= 2;
	if (capacity == output.capacity)
		return 0;
	bytes = realloc(output.bytes, capacity);
	if (!bytes)
		return -ENOMEM;
	output.bytes = bytes;
	output.capacity = capacity;
	return 0;
}

uint8_t *vial_connection_reserve(size_t size_bytes)
{
	if (make_space(VIAL_WIRE_HEADER_BYTES + size_bytes) < 0)
		return NULL;
	return output.bytes + output.end + VIAL_WIRE_HEADER_BYTES;
}

void vial_connection_commit(uint32_t stream, uint16_t epoch, uint8_t type, uint8_t channel, size_t size_bytes)
{
	struct vial_wire_frame frame = { .length = (uint32_t)size_bytes, .stream = stream, .epoch = epoch, .type = type, .channel = channel };

	vial_wire_header_encode(&frame, output.bytes + output.end);
	output.end += VIAL_WIRE_HEADER_BYTES + size_bytes;
}

void vial_connection_send(uint32_t stream, uint16_t epoch, uint8_t type, uint8_t channel, const void *payload, size_t size_bytes)
{
	uint8_t *space = vial_connection_reserve(size_bytes);

	if (!space) {
		/* The stream has lost a frame and nothing after it would make sense. A sandbox that small is over. */
		vial_log("error", "out of memory for a frame of %zu bytes", size_bytes);
		abort();
	}
	if (size_bytes > 0)
		memcpy(space, payload, size_bytes);
	vial_connection_commit(stream, epoch, type, channel, size_bytes);
}

static void shrink_when_empty(void)
{
	output.start = output.end = 0;
	if (output.capacity > OUTPUT_CAPACITY) {
		uint8_t *bytes = realloc(output.bytes, OUTPUT_CAPACITY);

		if (bytes) {
			output.bytes = bytes;
			output.capacity = OUTPUT_CAPACITY;
		}
	}
}

static size_t writable_bytes(void)
{
	switch (freeze_state) {
	case FREEZING:
		return freeze_left_bytes;
	case FROZEN:
		return 0;
	default:
		return queued_bytes();
	}
}

static void flush(void)
{
	while (writable_bytes() > 0) {
		ssize_t written = write(output_fd, output.bytes + output.start, writable_bytes());

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && errno != EAGAIN) {
			vial_log("error", "the host's end of the wire is gone (errno %d)", errno);
			vial_loop_stop();
			return;
		}
		if (written < 0)
			break;
		output.start += (size_t)written;
		if (freeze_state == FREEZING && (freeze_left_bytes -= (size_t)written) == 0)
			freeze_state = FROZEN;
	}
	if (queued_bytes() == 0)
		shrink_when_empty();
	vial_watch_modify(&out_watch, writable_bytes() > 0 ? EPOLLOUT : 0);
}

bool vial_connection_pump(void)
{
	bool has_more;

	flush();
	has_more = vial_streams_pump();
	flush();
	return has_more && vial_connection_room() > 0;
}

void vial_connection_discard_output(void)
{
	output.start = output.end = 0;
	freeze_left_bytes = 0;
}

void vial_connection_thaw(void)
{
	freeze_state = THAWED;
	freeze_left_bytes = 0;
}

static void begin_freeze(const struct vial_wire_frame *frame)
{
	if (freeze_state != THAWED)
		return;
	vial_connection_send(VIAL_WIRE_STREAM_CONNECTION, frame->epoch, VIAL_WIRE_FREEZE, 0, NULL, 0);
	freeze_state = FREEZING;
	freeze_left_bytes = queued_bytes();
	vial_hello_withdraw();
}

void vial_connection_dispatch(const struct vial_wire_frame *frame)
{
	switch (frame->type) {
	case VIAL_WIRE_HELLO:
		vial_hello_receive(frame);
		break;
	case VIAL_WIRE_FREEZE:
		begin_freeze(frame);
		break;
	case VIAL_WIRE_RESET:
		vial_streams_reset(frame->epoch);
		break;
	case VIAL_WIRE_PING:
		vial_connection_send(VIAL_WIRE_STREAM_CONNECTION, frame->epoch, VIAL_WIRE_PONG, 0, frame->payload, frame->length);
		break;
	case VIAL_WIRE_PONG:
		break;
	default:
		vial_streams_receive(frame);
	}
}

/* False when the connection is over. */
static bool dispatch_received(void)
{
	struct vial_wire_frame frame;
	int result;

	while ((result = vial_wire_reader_next(&reader, &frame)) > 0)
		vial_connection_dispatch(&frame);
	if (result < 0)
		vial_log("error", "the host sent a broken frame");
	return result == 0;
}

static void on_readable(struct vial_watch *watch, uint32_t events, void *data)
{
	size_t size;
	uint8_t *space = vial_wire_reader_space(&reader, &size);
	ssize_t received = read(watch->fd, space, size);

	if (received < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (received <= 0) {
		vial_log("info", "the host closed the wire");
		vial_loop_stop();
		return;
	}
	vial_wire_reader_filled(&reader, (size_t)received);
	if (!dispatch_received())
		vial_loop_stop();
}

static void on_output_ready(struct vial_watch *watch, uint32_t events, void *data)
{
	/* The pump, which runs before every wait, writes. An error with nothing to write would otherwise spin. */
	if ((events & (EPOLLERR | EPOLLHUP)) && queued_bytes() == 0) {
		vial_log("error", "the host closed its reading end");
		vial_loop_stop();
	}
}

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int vial_connection_init(int in_fd, int out_fd)
{
	int result = vial_wire_reader_init(&reader);

	output_fd = out_fd;
	output.bytes = malloc(OUTPUT_CAPACITY);
	output.capacity = OUTPUT_CAPACITY;
	if (!output.bytes)
		return -ENOMEM;
	if (result == 0)
		result = set_nonblocking(in_fd);
	if (result == 0)
		result = set_nonblocking(out_fd);
	if (result == 0)
		result = vial_watch_add(&in_watch, in_fd, EPOLLIN, on_readable, NULL);
	if (result == 0)
		result = vial_watch_add(&out_watch, out_fd, 0, on_output_ready, NULL);
	return result;
}
