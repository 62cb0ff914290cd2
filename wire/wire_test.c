/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the codec. Plain asserts: the first broken one names itself and ends the run. */
#undef NDEBUG
#include "wire/wire.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_frame(uint8_t *out, size_t *size, uint32_t length, uint32_t stream, uint8_t type, uint8_t channel)
{
	struct vial_wire_frame frame = { .length = length, .stream = stream, .epoch = 7, .type = type, .channel = channel };

	vial_wire_header_encode(&frame, out + *size);
	for (uint32_t i = 0; i < length; i++)
		out[*size + VIAL_WIRE_HEADER_BYTES + i] = (uint8_t)(i + stream);
	*size += VIAL_WIRE_HEADER_BYTES + length;
}

static void feed(struct vial_wire_reader *reader, const uint8_t *bytes, size_t size)
{
	size_t space;
	uint8_t *at = vial_wire_reader_space(reader, &space);

	assert(size <= space);
	memcpy(at, bytes, size);
	vial_wire_reader_filled(reader, size);
}

static void check_payload(const struct vial_wire_frame *frame)
{
	for (uint32_t i = 0; i < frame->length; i++)
		assert(frame->payload[i] == (uint8_t)(i + frame->stream));
}

static void a_header_survives_the_round_trip(void)
{
	struct vial_wire_frame frame = {
		.length = 4, .stream = 0xfffffffe, .epoch = 0xabcd, .type = VIAL_WIRE_EVENT, .channel = VIAL_WIRE_MORE | VIAL_WIRE_STDERR
	};
	struct vial_wire_frame decoded;
	uint8_t header[VIAL_WIRE_HEADER_BYTES];

	vial_wire_header_encode(&frame, header);
	assert(vial_wire_header_decode(header, &decoded) == 0);
	assert(decoded.length == 4 && decoded.stream == 0xfffffffe && decoded.epoch == 0xabcd);
	assert(decoded.type == VIAL_WIRE_EVENT && decoded.channel == (VIAL_WIRE_MORE | VIAL_WIRE_STDERR));
}

static void numbers_are_little_endian(void)
{
	uint8_t bytes[4];

	vial_wire_put_u32(bytes, 0x01020304);
	assert(bytes[0] == 4 && bytes[1] == 3 && bytes[2] == 2 && bytes[3] == 1);
	assert(vial_wire_get_u32(bytes) == 0x01020304);
}

static void expect_refused(uint32_t length, uint32_t stream, uint8_t type, uint8_t channel)
{
	struct vial_wire_frame frame = { .length = length, .stream = stream, .type = type, .channel = channel }, decoded;
	uint8_t header[VIAL_WIRE_HEADER_BYTES];

	vial_wire_header_encode(&frame, header);
	assert(vial_wire_header_decode(header, &decoded) == -EPROTO);
}

static void broken_headers_are_refused(void)
{
	expect_refused(VIAL_WIRE_MAX_PAYLOAD + 1, 1, VIAL_WIRE_DATA, 0);
	expect_refused(0xffffffff, 1, VIAL_WIRE_DATA, 0);
	expect_refused(0, 1, 0, 0);
	expect_refused(0, 1, VIAL_WIRE_TYPE_MAX + 1, 0);
	expect_refused(0, 1, 0xff, 0);
	expect_refused(0, 1, VIAL_WIRE_HELLO, 0); /* belongs to the connection */
	expect_refused(0, 0, VIAL_WIRE_DATA, 0);  /* belongs to a stream */
	expect_refused(0, 0, VIAL_WIRE_CREDIT, 0);
	expect_refused(3, 1, VIAL_WIRE_CREDIT, 0);
	expect_refused(5, 1, VIAL_WIRE_CREDIT, 0);
	expect_refused(0, 1, VIAL_WIRE_DATA, 3);
	expect_refused(0, 1, VIAL_WIRE_DATA, VIAL_WIRE_MORE);
	expect_refused(0, 1, VIAL_WIRE_EVENT, VIAL_WIRE_MORE | 3);
}

static void the_largest_frame_fits(void)
{
	struct vial_wire_reader reader;
	struct vial_wire_frame frame;
	size_t size = 0;
	uint8_t *bytes = malloc(VIAL_WIRE_HEADER_BYTES + VIAL_WIRE_MAX_PAYLOAD);

	assert(bytes && vial_wire_reader_init(&reader) == 0);
	put_frame(bytes, &size, VIAL_WIRE_MAX_PAYLOAD, 3, VIAL_WIRE_DATA, 0);
	feed(&reader, bytes, size);
	assert(vial_wire_reader_next(&reader, &frame) == 1 && frame.length == VIAL_WIRE_MAX_PAYLOAD);
	check_payload(&frame);
	assert(vial_wire_reader_next(&reader, &frame) == 0);
	assert(vial_wire_reader_is_at_boundary(&reader));
	vial_wire_reader_clear(&reader);
	free(bytes);
}

static void one_byte_at_a_time_gives_the_same_frames(void)
{
	struct vial_wire_reader reader;
	struct vial_wire_frame frame;
	uint8_t bytes[256];
	size_t size = 0;
	unsigned count = 0;

	put_frame(bytes, &size, 5, 1, VIAL_WIRE_DATA, 0);
	put_frame(bytes, &size, 0, 2, VIAL_WIRE_EOF, 1);
	put_frame(bytes, &size, 4, 3, VIAL_WIRE_CREDIT, 0);
	assert(vial_wire_reader_init(&reader) == 0);
	for (size_t i = 0; i < size; i++) {
		feed(&reader, bytes + i, 1);
		while (vial_wire_reader_next(&reader, &frame) == 1) {
			count++;
			assert(frame.stream == count && frame.epoch == 7);
			check_payload(&frame);
		}
		assert(vial_wire_reader_is_at_boundary(&reader) == (i + 1 == 17 || i + 1 == 29 || i + 1 == 45));
	}
	assert(count == 3);
	vial_wire_reader_clear(&reader);
}

/* Frames of all sizes in reads of all sizes, so that every way of straddling the buffer's end comes up. */
static void any_cut_gives_the_same_frames(void)
{
	struct vial_wire_reader reader;
	struct vial_wire_frame frame;
	size_t total = 0, fed = 0, capacity = 16 * (VIAL_WIRE_MAX_PAYLOAD + VIAL_WIRE_HEADER_BYTES);
	uint8_t *bytes = malloc(capacity);
	unsigned seed = 1, sent = 0, received = 0;

	assert(bytes && vial_wire_reader_init(&reader) == 0);
	while (total + VIAL_WIRE_HEADER_BYTES + VIAL_WIRE_MAX_PAYLOAD <= capacity) {
		seed = seed * 1103515245 + 12345;
		sent++;
		put_frame(bytes, &total, sent % 3 ? seed % 1000 : seed % (VIAL_WIRE_MAX_PAYLOAD + 1), sent, VIAL_WIRE_DATA, 0);
	}
	while (fed < total) {
		size_t space, size;
		uint8_t *at = vial_wire_reader_space(&reader, &space);

		assert(space > 0);
		seed = seed * 1103515245 + 12345;
		size = seed % 70000 + 1;
		size = size > space ? space : size;
		size = size > total - fed ? total - fed : size;
		memcpy(at, bytes + fed, size);
		vial_wire_reader_filled(&reader, size);
		fed += size;
		while (vial_wire_reader_next(&reader, &frame) == 1) {
			assert(frame.stream == ++received);
			check_payload(&frame);
		}
	}
	assert(received == sent && vial_wire_reader_is_at_boundary(&reader));
	vial_wire_reader_clear(&reader);
	free(bytes);
}

static void a_broken_frame_poisons_the_reader_until_reset(void)
{
	struct vial_wire_reader reader;
	struct vial_wire_frame frame;
	uint8_t bytes[64];
	size_t size = 0;

	assert(vial_wire_reader_init(&reader) == 0);
	put_frame(bytes, &size, 0, 1, 0xee, 0);
	put_frame(bytes, &size, 2, 1, VIAL_WIRE_DATA, 0);
	feed(&reader, bytes, size);
	assert(vial_wire_reader_next(&reader, &frame) == -EPROTO);
	assert(vial_wire_reader_next(&reader, &frame) == -EPROTO);
	vial_wire_reader_reset(&reader);
	assert(vial_wire_reader_is_at_boundary(&reader));
	size = 0;
	put_frame(bytes, &size, 2, 1, VIAL_WIRE_DATA, 0);
	feed(&reader, bytes, size);
	assert(vial_wire_reader_next(&reader, &frame) == 1 && frame.length == 2);
	vial_wire_reader_clear(&reader);
}

static void a_lie_about_the_length_is_seen_before_the_payload_arrives(void)
{
	struct vial_wire_reader reader;
	struct vial_wire_frame frame, lie = { .length = 0x7fffffff, .stream = 1, .type = VIAL_WIRE_DATA };
	uint8_t header[VIAL_WIRE_HEADER_BYTES];

	assert(vial_wire_reader_init(&reader) == 0);
	vial_wire_header_encode(&lie, header);
	feed(&reader, header, sizeof(header) - 1);
	assert(vial_wire_reader_next(&reader, &frame) == 0);
	feed(&reader, header + sizeof(header) - 1, 1);
	assert(vial_wire_reader_next(&reader, &frame) == -EPROTO);
	vial_wire_reader_clear(&reader);
}

int main(void)
{
	a_header_survives_the_round_trip();
	numbers_are_little_endian();
	broken_headers_are_refused();
	the_largest_frame_fits();
	one_byte_at_a_time_gives_the_same_frames();
	any_cut_gives_the_same_frames();
	a_broken_frame_poisons_the_reader_until_reset();
	a_lie_about_the_length_is_seen_before_the_payload_arrives();
	puts("8 passed");
	return 0;
}
