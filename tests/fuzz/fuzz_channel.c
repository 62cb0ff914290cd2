/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the host's end of the wire. A channel with a HELLO and a FREEZE due, a call to the host process, streams open and one left by its
 * owner hears the input as its guest's and monitor's words. Whatever they are: every stream and call is settled exactly once, a lie closes the
 * channel once with its reason, and what comes out of a message is within its bounds. The first byte chooses what the owners do meanwhile.
 */
#undef NDEBUG
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/channel.h"
#include "util/json.h"

#define STREAMS 4

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

struct owner {
	VialStream *stream;
	unsigned closed;
	bool leaves; /* at its first event */
};

struct world {
	VialChannel *channel;
	unsigned closed, calls;
	bool finds_lies; /* in whatever answer it gets */
	struct owner owners[STREAMS];
};

static void run_loop(void)
{
	while (g_main_context_iteration(NULL, FALSE))
		;
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	assert(channel <= 2);
	vial_stream_consumed(stream, g_bytes_get_size(bytes));
}

static void on_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	struct owner *owner = data;

	assert(json_is_object(event));
	vial_stream_consumed(stream, size);
	if (owner->leaves)
		g_clear_pointer(&owner->stream, vial_stream_free);
}

static void on_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	struct owner *owner = data;

	assert(!result == !!error && (!error || strlen(error->message) < 2048));
	owner->closed++;
}

static void on_channel_closed(VialChannel *channel, const GError *error, gpointer data)
{
	struct world *world = data;

	assert(world->closed++ == 0 && error->code == VIAL_ERROR_GATEWAY && strstr(error->message, "broke the protocol"));
}

static void on_hello(VialChannel *channel, const VialAgentHello *hello, gpointer data)
{
	assert(hello->refusal ? strlen(hello->refusal) <= VIAL_MESSAGE_TEXT_BYTES : hello->version > 0 && hello->wall_clock_us >= 0);
}

static void on_state(VialChannel *channel, const char *state, gpointer data)
{
	assert(strlen(state) < 8);
}

static void on_call(json_t *result, const GError *error, gpointer data)
{
	struct world *world = data;

	world->calls++;
	if (world->finds_lies)
		vial_channel_violation(world->channel, "an answer that does not fit");
}

static void open_world(struct world *world, int fd, uint8_t flags)
{
	static const VialChannelEvents events = { .hello = on_hello, .host_state = on_state, .closed = on_channel_closed };
	static const VialStreamEvents stream_events = { .data = on_data, .event = on_event, .closed = on_closed };

	world->finds_lies = flags & 1;
	world->channel = vial_channel_new(fd, &events, world);
	vial_channel_send_hello(world->channel, json_object());
	if (flags & 2)
		vial_channel_send_freeze(world->channel);
	for (unsigned i = 0; i < STREAMS; i++) {
		world->owners[i].leaves = flags & 4;
		world->owners[i].stream = vial_stream_open(world->channel, json_object(), &stream_events, &world->owners[i]);
	}
	g_clear_pointer(&world->owners[STREAMS - 1].stream, vial_stream_free);
	vial_channel_call(world->channel, json_object(), 1000000, on_call, world);
	vial_channel_host_call(world->channel, json_object(), NULL, 1000000, on_call, world);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct world world = { 0 };
	int ends[2], buffer = 1 << 20;

	if (size == 0)
		return 0;
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	open_world(&world, ends[0], bytes[0]);
	for (size_t at = 1; at < size && !world.closed;) {
		ssize_t part = send(ends[1], bytes + at, size - at, MSG_NOSIGNAL);
		char answer[65536];

		if (part <= 0)
			break;
		at += (size_t)part;
		run_loop();
		while (read(ends[1], answer, sizeof(answer)) > 0)
			;
	}
	run_loop();
	vial_channel_free(world.channel);
	run_loop();
	assert(world.calls == 2);
	for (unsigned i = 0; i < STREAMS; i++) {
		assert(world.owners[i].closed == (world.owners[i].stream ? 1u : 0u));
		vial_stream_free(world.owners[i].stream);
	}
	close(ends[1]);
	return 0;
}
