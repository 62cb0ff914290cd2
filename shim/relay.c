/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves frames between viald's socket and the agent's pipes, whole frames only, so that a viald killed in the middle of
 * one leaves the agent's stream intact. docs/wire.md tells what epochs are for. Frames on stream 0xffffffff are for us.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

static const char *state_name(enum shim_state state)
{
	switch (state) {
	case SHIM_NEW:
		return "new";
	case SHIM_CREATED:
		return "created";
	case SHIM_RUNNING:
		return "running";
	case SHIM_PAUSED:
		return "paused";
	case SHIM_EXITED:
		return "exited";
	}
	return "unknown";
}

static int push_frame(struct shim_queue *queue, const struct vial_wire_frame *frame)
{
	uint8_t header[VIAL_WIRE_HEADER_BYTES];
	int result;

	vial_wire_header_encode(frame, header);
	result = shim_queue_push(queue, header, sizeof header);
	return result < 0 ? result : shim_queue_push(queue, frame->payload, frame->length);
}

int shim_relay_send_host(struct shim *shim, enum vial_wire_type type, json_t *message)
{
	char *text = json_dumps(message, JSON_COMPACT);
	struct vial_wire_frame frame = { .stream = VIAL_WIRE_STREAM_HOST, .epoch = shim->epoch, .type = (uint8_t)type };
	int result = 0;

	json_decref(message);
	if (!text)
		return -ENOMEM;
	frame.payload = (const uint8_t *)text;
	frame.length = (uint32_t)strlen(text);
	if (shim->viald_fd >= 0)
		result = push_frame(&shim->to_viald, &frame);
	free(text);
	return result;
}

void shim_relay_announce(struct shim *shim)
{
	/* A viald that is gone asked for what is under way: until it is done, the guest may well not answer. */
	bool is_busy = shim->command.pid != 0 && shim->command.tag == 0 && shim->state != SHIM_EXITED;
	json_t *message = json_pack("{s:s, s:s, s:i, s:i, s:s}", "event", "state", "state", is_busy ? "busy" : state_name(shim->state), "epoch",
	                            (int)shim->epoch, "pid", (int)shim->sandbox_pid, "engine", "gvisor");

	if (shim->state == SHIM_EXITED)
		json_object_set_new(message, "exit_status", json_integer(shim->exit_status));
	shim_relay_send_host(shim, VIAL_WIRE_EVENT, message);
}

void shim_relay_detach(struct shim *shim)
{
	if (shim->viald_fd >= 0)
		close(shim->viald_fd);
	shim->viald_fd = -1;
	vial_wire_reader_reset(&shim->viald_reader);
	shim_queue_clear(&shim->to_viald);
}

/* A new viald: what the old one asked for is void, in the agent too. */
void shim_relay_attach(struct shim *shim, int fd)
{
	struct vial_wire_frame reset = { .type = VIAL_WIRE_RESET };

	shim_relay_detach(shim);
	shim->viald_fd = fd;
	reset.epoch = ++shim->epoch;
	/* A command of the old viald still runs to its end; its answer has nobody to go to. */
	shim->command.tag = 0;
	if (shim->state == SHIM_RUNNING || shim->state == SHIM_PAUSED)
		push_frame(&shim->to_agent, &reset);
	shim_relay_announce(shim);
}

static int handle_host_frame(struct shim *shim, const struct vial_wire_frame *frame)
{
	json_t *request = json_loadb((const char *)frame->payload, frame->length, 0, NULL);

	if (!request || frame->type != VIAL_WIRE_OPEN) {
		json_decref(request);
		return -EPROTO;
	}
	shim_runsc_request(shim, request);
	json_decref(request);
	return 0;
}

/* Fills a reader once from a descriptor: bytes read, 0 at the end of the stream, -errno. */
static ssize_t fill(struct vial_wire_reader *reader, int fd)
{
	size_t size;
	uint8_t *space = vial_wire_reader_space(reader, &size);
	ssize_t got = read(fd, space, size);

	if (got < 0)
		return -errno;
	vial_wire_reader_filled(reader, (size_t)got);
	return got;
}

int shim_relay_read_viald(struct shim *shim)
{
	struct vial_wire_frame frame;
	ssize_t got = fill(&shim->viald_reader, shim->viald_fd);
	int result;

	if (got == -EAGAIN || got == -EINTR)
		return 0;
	if (got <= 0)
		return -EPIPE;
	while ((result = vial_wire_reader_next(&shim->viald_reader, &frame)) > 0) {
		if (frame.stream == VIAL_WIRE_STREAM_HOST) {
			result = handle_host_frame(shim, &frame);
		} else {
			frame.epoch = shim->epoch;
			result = push_frame(&shim->to_agent, &frame);
		}
		if (result < 0)
			return result;
	}
	return result;
}

int shim_relay_read_agent(struct shim *shim)
{
	struct vial_wire_frame frame;
	ssize_t got = fill(&shim->agent_reader, shim->agent_out_fd);
	int result;

	if (got == -EAGAIN || got == -EINTR)
		return 0;
	if (got <= 0)
		return -EPIPE;
	while ((result = vial_wire_reader_next(&shim->agent_reader, &frame)) > 0) {
		if (frame.epoch != shim->epoch || frame.stream == VIAL_WIRE_STREAM_HOST || shim->viald_fd < 0)
			continue;
		result = push_frame(&shim->to_viald, &frame);
		if (result < 0)
			return result;
	}
	return result;
}
