/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc.read: what a background process wrote since a given byte, waited for if there is nothing yet. For those who look from time to time and hold no
 * stream; the number that they are given is where they go on.
 */
#include <errno.h>
#include <stdlib.h>

#include "ops.h"
#include "process.h"

#define MAX_BYTES (1024 * 1024)
#define MAX_WAIT_MS 60000
/* What comes in one go is written in pieces: a screen, the echo of a line and what it did. */
#define SETTLE_MS 20

struct reading {
	struct vial_attached attached; /* first */
	struct vial_timer timer;
	uint64_t since;       /* the next byte's number */
	json_int_t max_bytes; /* that may still be sent */
	bool has_sent;
};

static void end_reading(struct reading *reading, bool is_told)
{
	struct vial_process_run *run = reading->attached.run;
	struct vial_stream *stream = reading->attached.stream;
	json_t *result = json_pack("{s:I,s:b}", "next", (json_int_t)reading->since, "exited", run->is_done);

	if (run->is_done)
		json_object_set_new(result, "exit_code", json_integer(run->exit.exit_code));
	vial_timer_clear(&reading->timer);
	vial_process_detach(&reading->attached);
	free(reading);
	if (is_told)
		vial_stream_close_ok(stream, result);
	else
		json_decref(result);
}

/* Whether there was something. */
static bool send_piece(struct reading *reading)
{
	struct vial_attached *attached = &reading->attached;
	uint8_t channel, *space;
	size_t size, got;

	space = vial_stream_reserve(attached->stream, &size);
	if (!space) {
		vial_stream_wait_writable(attached->stream);
		return false;
	}
	got = vial_ring_get(attached->run->ring, &attached->reader, &channel, space,
	                    size < (size_t)reading->max_bytes ? size : (size_t)reading->max_bytes);
	vial_stream_commit(attached->stream, channel, got);
	reading->since += got;
	reading->max_bytes -= (json_int_t)got;
	return got > 0;
}

static bool send_all(struct reading *reading)
{
	bool has_new = false;

	/* The ring may have moved on over what was not read yet. */
	reading->since = vial_ring_seek(reading->attached.run->ring, reading->since, &reading->attached.reader);
	while (reading->max_bytes > 0 && send_piece(reading))
		has_new = true;
	return has_new;
}

static void on_time(struct vial_timer *timer, void *data)
{
	send_all(data);
	end_reading(data, true);
}

static void on_writable(struct vial_stream *stream)
{
	struct reading *reading = vial_stream_data(stream);
	bool has_new = send_all(reading);

	if (reading->max_bytes == 0 || (reading->attached.run->is_done && vial_stream_room(stream) > 0)) {
		end_reading(reading, true);
	} else if (has_new && !reading->has_sent) {
		reading->has_sent = true;
		vial_timer_set(&reading->timer, SETTLE_MS, on_time, reading);
	}
}

static void on_done(struct vial_attached *attached)
{
	on_writable(attached->stream);
}

static void on_cancel(struct vial_stream *stream)
{
	end_reading(vial_stream_data(stream), true);
}

static void on_drop(struct vial_stream *stream)
{
	end_reading(vial_stream_data(stream), false);
}

static const struct vial_stream_handlers handlers = { .on_writable = on_writable, .on_cancel = on_cancel, .on_drop = on_drop };

void vial_op_proc_read(struct vial_stream *stream, json_t *request)
{
	struct vial_process_run *run = vial_request_process(stream, request);
	json_int_t since, max_bytes, wait_ms;
	struct reading *reading;

	if (!run || !vial_request_integer(stream, request, "since", 0, INT64_MAX, 0, &since) ||
	    !vial_request_integer(stream, request, "max_bytes", 1, MAX_BYTES, MAX_BYTES, &max_bytes) ||
	    !vial_request_integer(stream, request, "wait_ms", 0, MAX_WAIT_MS, 0, &wait_ms))
		return;
	if (!run->ring) {
		vial_stream_close_error(stream, VIAL_CONFLICT, "process %d does not run in the background", (int)run->pid);
		return;
	}
	reading = calloc(1, sizeof(*reading));
	if (!reading) {
		vial_stream_close_errno(stream, ENOMEM, "cannot read");
		return;
	}
	*reading = (struct reading){ .attached = { .run = run, .stream = stream, .on_done = on_done },
		                     .since = (uint64_t)since,
		                     .max_bytes = max_bytes };
	vial_process_listen(&reading->attached);
	vial_stream_set_handlers(stream, &handlers, reading);
	vial_timer_set(&reading->timer, wait_ms, on_time, reading);
	vial_stream_wait_writable(stream);
}
