/* SPDX-License-Identifier: Apache-2.0 */
/* The codec of wire.h. Single-threaded per reader; no I/O, no clock, no globals. */
#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Room for one whole frame and most of a second, so that a read(2) rarely ends in the middle of a small one. */
#define READER_CAPACITY (2u * (VIAL_WIRE_HEADER_BYTES + VIAL_WIRE_MAX_PAYLOAD))

uint32_t vial_wire_get_u32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

void vial_wire_put_u32(uint8_t *bytes, uint32_t value)
{
	bytes[0] = (uint8_t)value;
	bytes[1] = (uint8_t)(value >> 8);
	bytes[2] = (uint8_t)(value >> 16);
	bytes[3] = (uint8_t)(value >> 24);
}

static bool is_connection_type(uint8_t type)
{
	return type == VIAL_WIRE_HELLO || type == VIAL_WIRE_FREEZE || type == VIAL_WIRE_RESET || type == VIAL_WIRE_PING || type == VIAL_WIRE_PONG;
}

void vial_wire_header_encode(const struct vial_wire_frame *frame, uint8_t *out_header)
{
	vial_wire_put_u32(out_header, frame->length);
	vial_wire_put_u32(out_header + 4, frame->stream);
	out_header[8] = (uint8_t)frame->epoch;
	out_header[9] = (uint8_t)(frame->epoch >> 8);
	out_header[10] = frame->type;
	out_header[11] = frame->channel;
}

int vial_wire_header_decode(const uint8_t header[VIAL_WIRE_HEADER_BYTES], struct vial_wire_frame *out_frame)
{
	struct vial_wire_frame frame = {
		.length = vial_wire_get_u32(header),
		.stream = vial_wire_get_u32(header + 4),
		.epoch = (uint16_t)(header[8] | header[9] << 8),
		.type = header[10],
		.channel = header[11],
	};

	if (frame.length > VIAL_WIRE_MAX_PAYLOAD || frame.type == 0 || frame.type > VIAL_WIRE_TYPE_MAX)
		return -EPROTO;
	if (is_connection_type(frame.type) != (frame.stream == VIAL_WIRE_STREAM_CONNECTION))
		return -EPROTO;
	if (frame.type == VIAL_WIRE_CREDIT && frame.length != 4)
		return -EPROTO;
	if ((frame.channel & ~VIAL_WIRE_MORE) > VIAL_WIRE_STDERR)
		return -EPROTO;
	if ((frame.channel & VIAL_WIRE_MORE) && frame.type != VIAL_WIRE_EVENT)
		return -EPROTO;
	*out_frame = frame;
	return 0;
}

int vial_wire_reader_init(struct vial_wire_reader *reader)
{
	*reader = (struct vial_wire_reader){ .buffer = malloc(READER_CAPACITY), .capacity = READER_CAPACITY };
	return reader->buffer ? 0 : -ENOMEM;
}

void vial_wire_reader_clear(struct vial_wire_reader *reader)
{
	free(reader->buffer);
	*reader = (struct vial_wire_reader){ 0 };
}

void vial_wire_reader_reset(struct vial_wire_reader *reader)
{
	reader->start = reader->end = 0;
	reader->is_broken = false;
}

bool vial_wire_reader_is_at_boundary(const struct vial_wire_reader *reader)
{
	return reader->start == reader->end;
}

uint8_t *vial_wire_reader_space(struct vial_wire_reader *reader, size_t *out_size)
{
	if (reader->start == reader->end) {
		reader->start = reader->end = 0;
	} else if (reader->capacity - reader->start < VIAL_WIRE_HEADER_BYTES + VIAL_WIRE_MAX_PAYLOAD) {
		/* The frame that begins at start might not fit behind it; move what we have of it to the front. */
		memmove(reader->buffer, reader->buffer + reader->start, reader->end - reader->start);
		reader->end -= reader->start;
		reader->start = 0;
	}
	*out_size = reader->capacity - reader->end;
	return reader->buffer + reader->end;
}

void vial_wire_reader_filled(struct vial_wire_reader *reader, size_t size_bytes)
{
	reader->end += size_bytes;
}

int vial_wire_reader_next(struct vial_wire_reader *reader, struct vial_wire_frame *out_frame)
{
	struct vial_wire_frame frame;
	size_t available = reader->end - reader->start;

	if (reader->is_broken)
		return -EPROTO;
	if (available < VIAL_WIRE_HEADER_BYTES)
		return 0;
	if (vial_wire_header_decode(reader->buffer + reader->start, &frame) < 0) {
		reader->is_broken = true;
		return -EPROTO;
	}
	if (available - VIAL_WIRE_HEADER_BYTES < frame.length)
		return 0;
	frame.payload = reader->buffer + reader->start + VIAL_WIRE_HEADER_BYTES;
	reader->start += VIAL_WIRE_HEADER_BYTES + frame.length;
	*out_frame = frame;
	return 1;
}
