/* SPDX-License-Identifier: Apache-2.0 */
/* See console.h; virtio 1.2, 5.3. Bytes that do not fit anywhere wait in the guest's own buffers: backpressure all the way. */
#include "console.h"

#include <errno.h>
#include <string.h>

#define F_MULTIPORT (1ull << 1)
enum { QUEUE_RECEIVE = 0, QUEUE_TRANSMIT = 1, QUEUE_CONTROL_RECEIVE = 2, QUEUE_CONTROL_TRANSMIT = 3 };
enum { EVENT_DEVICE_READY = 0, EVENT_PORT_ADD = 1, EVENT_PORT_READY = 3, EVENT_PORT_OPEN = 6 };

/* One transmit buffer is at most 32 KiB in Linux; anything larger is served in pieces of this size. */
#define PIECE_BYTES 4096u

struct config {
	uint16_t columns;
	uint16_t rows;
	uint32_t max_ports;
	uint32_t emergency_write;
};

struct saved {
	struct vial_console_message control[VIAL_CONSOLE_MAX_CONTROL];
	uint32_t control_count;
	uint32_t is_open;
};

static int send_control(struct vial_virtio *device)
{
	struct vial_console *console = device->self;
	struct vial_chain chain;
	int result;

	while (console->control_count > 0 && (result = vial_queue_pop(&device->queues[QUEUE_CONTROL_RECEIVE], device->memory, &chain)) != 0) {
		uint32_t written;

		if (result < 0)
			return result;
		written = vial_chain_write(&chain, 0, &console->control[0], sizeof(console->control[0]));
		console->control_count--;
		memmove(&console->control[0], &console->control[1], console->control_count * sizeof(console->control[0]));
		result = vial_virtio_finish(device, QUEUE_CONTROL_RECEIVE, chain.head, written);
		if (result < 0)
			return result;
	}
	return 0;
}

static void queue_control(struct vial_console *console, uint16_t event, uint16_t value)
{
	/* A driver that asks without ever listening loses messages, not us memory. */
	if (console->control_count < VIAL_CONSOLE_MAX_CONTROL)
		console->control[console->control_count++] = (struct vial_console_message){ .event = event, .value = value };
}

static int serve_receive(struct vial_virtio *device)
{
	struct vial_console *console = device->self;
	struct vial_queue *queue = &device->queues[QUEUE_RECEIVE];
	struct vial_chain chain;
	int result;

	/* Nothing is delivered before the agent holds the port: Linux would throw it away. */
	while (console->is_open && vial_pipe_used(&console->to_guest) > 0 && (result = vial_queue_pop(queue, device->memory, &chain)) != 0) {
		uint32_t written = 0;

		if (result < 0)
			return result;
		while (written < chain.writable_bytes) {
			uint8_t piece[PIECE_BYTES];
			uint32_t room = chain.writable_bytes - written;
			size_t got = vial_pipe_take(&console->to_guest, piece, room < sizeof(piece) ? room : sizeof(piece));

			if (got == 0)
				break;
			written += vial_chain_write(&chain, written, piece, (uint32_t)got);
		}
		console->in_bytes += written;
		result = vial_virtio_finish(device, QUEUE_RECEIVE, chain.head, written);
		if (result < 0)
			return result;
	}
	return 0;
}

static int serve_control(struct vial_virtio *device)
{
	struct vial_console *console = device->self;
	struct vial_chain chain;
	int result;

	while ((result = vial_queue_pop(&device->queues[QUEUE_CONTROL_TRANSMIT], device->memory, &chain)) > 0) {
		struct vial_console_message message;

		if (vial_chain_read(&chain, 0, &message, sizeof(message)) == sizeof(message)) {
			if (message.event == EVENT_DEVICE_READY && message.value == 1)
				queue_control(console, EVENT_PORT_ADD, 1);
			else if (message.event == EVENT_PORT_READY && message.port == 0 && message.value == 1)
				queue_control(console, EVENT_PORT_OPEN, 1); /* our end is always open, viald or not */
			else if (message.event == EVENT_PORT_OPEN && message.port == 0)
				console->is_open = message.value == 1;
		}
		result = vial_virtio_finish(device, QUEUE_CONTROL_TRANSMIT, chain.head, 0);
		if (result < 0)
			return result;
	}
	if (result == 0)
		result = send_control(device);
	/* The agent may just have opened the port, and bytes been waiting for that. */
	return result == 0 && device->queues[QUEUE_RECEIVE].is_ready ? serve_receive(device) : result;
}

static int serve_transmit(struct vial_virtio *device)
{
	struct vial_console *console = device->self;
	struct vial_queue *queue = &device->queues[QUEUE_TRANSMIT];
	struct vial_chain chain;
	int result;

	while ((result = vial_queue_pop(queue, device->memory, &chain)) > 0) {
		uint32_t done = 0;

		if (chain.readable_bytes > VIAL_PIPE_BYTES)
			return -EPROTO;
		/* A buffer is taken whole or left with the guest: there is no half-consumed state that would need saving. */
		if (!vial_pipe_has_room(&console->from_guest, chain.readable_bytes)) {
			vial_queue_unpop(queue);
			return 0;
		}
		while (done < chain.readable_bytes) {
			uint8_t piece[PIECE_BYTES];
			uint32_t got = vial_chain_read(&chain, done, piece, sizeof(piece));

			done += (uint32_t)vial_pipe_put(&console->from_guest, piece, got);
		}
		console->out_bytes += done;
		result = vial_virtio_finish(device, QUEUE_TRANSMIT, chain.head, 0);
		if (result < 0)
			break;
	}
	return result;
}

static int serve(struct vial_virtio *device, unsigned queue)
{
	switch (queue) {
	case QUEUE_RECEIVE:
		return serve_receive(device);
	case QUEUE_TRANSMIT:
		return serve_transmit(device);
	case QUEUE_CONTROL_RECEIVE:
		return send_control(device);
	default:
		return serve_control(device);
	}
}

static int host_fd(struct vial_virtio *device, unsigned n)
{
	struct vial_console *console = device->self;

	return n == 0 ? console->to_guest.data_fd : n == 1 ? console->from_guest.room_fd : -1;
}

static int on_host(struct vial_virtio *device)
{
	struct vial_console *console = device->self;

	int result = 0;

	vial_pipe_clear_events(console->to_guest.data_fd);
	vial_pipe_clear_events(console->from_guest.room_fd);
	if (vial_virtio_is_running(device) && device->queues[QUEUE_RECEIVE].is_ready)
		result = serve_receive(device);
	if (result == 0 && vial_virtio_is_running(device) && device->queues[QUEUE_TRANSMIT].is_ready)
		result = serve_transmit(device);
	return result;
}

static void read_config(struct vial_virtio *device, uint32_t offset, uint8_t *out, uint32_t length)
{
	struct config config = { .max_ports = 1 };

	if (offset < sizeof(config))
		memcpy(out, (uint8_t *)&config + offset, length < sizeof(config) - offset ? length : sizeof(config) - offset);
}

static void reset(struct vial_virtio *device)
{
	struct vial_console *console = device->self;

	console->control_count = 0;
	console->is_open = false;
}

static void save(struct vial_virtio *device, uint32_t index, struct vial_state_writer *writer)
{
	const struct vial_console *console = device->self;
	struct saved *saved = vial_state_reserve(writer, VIAL_STATE_DEVICE, index, sizeof(*saved));

	if (!saved)
		return;
	memcpy(saved->control, console->control, sizeof(saved->control));
	saved->control_count = console->control_count;
	saved->is_open = console->is_open;
}

static int load(struct vial_virtio *device, uint32_t index, const struct vial_state *state)
{
	struct vial_console *console = device->self;
	struct saved saved;

	if (vial_state_get(state, VIAL_STATE_DEVICE, index, &saved, sizeof(saved)) < 0 || saved.control_count > VIAL_CONSOLE_MAX_CONTROL)
		return -EPROTO;
	memcpy(console->control, saved.control, sizeof(saved.control));
	console->control_count = saved.control_count;
	console->is_open = saved.is_open;
	return 0;
}

static void close_console(struct vial_virtio *device)
{
	struct vial_console *console = device->self;

	vial_pipe_close(&console->to_guest);
	vial_pipe_close(&console->from_guest);
}

static const struct vial_virtio_ops ops = {
	.name = "console",
	.type = VIAL_VIRTIO_CONSOLE,
	.queue_count = 4,
	.queue_size = 128,
	.serve = serve,
	.read_config = read_config,
	.reset = reset,
	.host_fd = host_fd,
	.on_host = on_host,
	.save = save,
	.load = load,
	.close = close_console,
};

int vial_console_init(struct vial_virtio *device, struct vial_console *console, const struct vial_memory *memory)
{
	int result;

	*console = (struct vial_console){ 0 };
	result = vial_pipe_init(&console->to_guest);
	if (result == 0)
		result = vial_pipe_init(&console->from_guest);
	vial_virtio_init(device, &ops, console, memory, F_MULTIPORT);
	return result;
}
