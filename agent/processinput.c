/* SPDX-License-Identifier: Apache-2.0 */
/* See processinput.h and process.h. */
#include "processinput.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PTY_END_OF_FILE 0x04

static void give_credit(struct vial_process_input *input, size_t size_bytes)
{
	if (input->source)
		vial_stream_consumed(input->source, size_bytes);
}

static void tell_drained(struct vial_process_input *input)
{
	struct vial_stream *source = input->source;
	void (*on_drained)(struct vial_stream *) = input->on_drained;

	if (!on_drained)
		return;
	input->source = NULL;
	input->on_drained = NULL;
	on_drained(source);
}

void vial_process_input_close(struct vial_process_run *run)
{
	struct vial_process_input *input = &run->input;

	if (input->fd >= 0) {
		vial_watch_remove(&input->watch);
		close(input->fd);
		input->fd = -1;
	}
	give_credit(input, input->end - input->start);
	free(input->bytes);
	input->bytes = NULL;
	input->start = input->end = input->capacity = 0;
	tell_drained(input);
	/* The stream may be gone long before the process is forgotten. */
	input->source = NULL;
}

static void on_input_ready(struct vial_watch *watch, uint32_t events, void *data);

/* Writes what can be written now; watches for the rest. */
static void flush(struct vial_process_run *run)
{
	struct vial_process_input *input = &run->input;

	while (input->start < input->end) {
		ssize_t written = write(input->fd, input->bytes + input->start, input->end - input->start);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && errno == EAGAIN) {
			if (!input->watch.is_added)
				vial_watch_add(&input->watch, input->fd, EPOLLOUT, on_input_ready, run);
			return;
		}
		if (written < 0) { /* nobody reads it any more */
			vial_process_input_close(run);
			return;
		}
		input->start += (size_t)written;
		give_credit(input, (size_t)written);
	}
	input->start = input->end = 0;
	vial_watch_remove(&input->watch);
	if (!input->is_ending)
		return;
	if (input->closes_at_end && !run->is_pty) {
		vial_process_input_close(run);
		return;
	}
	/* A terminal has no end of file but the character for it; it stays open for the next one. */
	if (input->closes_at_end)
		(void)!write(input->fd, &(uint8_t){ PTY_END_OF_FILE }, 1);
	input->is_ending = input->closes_at_end = false;
	tell_drained(input);
}

static void on_input_ready(struct vial_watch *watch, uint32_t events, void *data)
{
	flush(data);
}

static int make_space(struct vial_process_input *input, size_t size_bytes)
{
	size_t capacity = input->end - input->start + size_bytes;
	uint8_t *bytes;

	if (input->start > 0) {
		memmove(input->bytes, input->bytes + input->start, input->end - input->start);
		input->end -= input->start;
		input->start = 0;
	}
	if (capacity <= input->capacity)
		return 0;
	bytes = realloc(input->bytes, capacity);
	if (!bytes)
		return -ENOMEM;
	input->bytes = bytes;
	input->capacity = capacity;
	return 0;
}

void vial_process_input_write(struct vial_process_run *run, const uint8_t *bytes, size_t size_bytes)
{
	struct vial_process_input *input = &run->input;

	if (input->fd < 0 || input->is_ending || make_space(input, size_bytes) < 0) {
		give_credit(input, size_bytes);
		return;
	}
	memcpy(input->bytes + input->end, bytes, size_bytes);
	input->end += size_bytes;
	flush(run);
}

void vial_process_input_end(struct vial_process_run *run, bool closes)
{
	struct vial_process_input *input = &run->input;

	if (input->fd < 0) {
		tell_drained(input);
		return;
	}
	input->is_ending = true;
	input->closes_at_end = closes;
	flush(run);
}
