/* SPDX-License-Identifier: Apache-2.0 */
/* See ring.h. A piece is a 4-byte header (channel in the top byte, length below) and its bytes, wrapping at the end of the buffer. */
#include "ring.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 4u
#define MAX_PIECE (64u * 1024u)

struct vial_ring {
	uint64_t first, end; /* absolute positions: oldest piece, next piece */
	uint64_t dropped;    /* bytes of the pieces before the oldest */
	uint8_t bytes[VIAL_RING_BYTES];
};

struct vial_ring *vial_ring_new(void)
{
	struct vial_ring *ring = malloc(sizeof(*ring));

	if (ring)
		ring->first = ring->end = ring->dropped = 0;
	return ring;
}

void vial_ring_free(struct vial_ring *ring)
{
	free(ring);
}

static void copy_in(struct vial_ring *ring, uint64_t position, const uint8_t *bytes, size_t size_bytes)
{
	size_t at = position % VIAL_RING_BYTES;
	size_t head = VIAL_RING_BYTES - at < size_bytes ? VIAL_RING_BYTES - at : size_bytes;

	memcpy(ring->bytes + at, bytes, head);
	memcpy(ring->bytes, bytes + head, size_bytes - head);
}

static void copy_out(const struct vial_ring *ring, uint64_t position, uint8_t *out_bytes, size_t size_bytes)
{
	size_t at = position % VIAL_RING_BYTES;
	size_t head = VIAL_RING_BYTES - at < size_bytes ? VIAL_RING_BYTES - at : size_bytes;

	memcpy(out_bytes, ring->bytes + at, head);
	memcpy(out_bytes + head, ring->bytes, size_bytes - head);
}

static size_t read_header(const struct vial_ring *ring, uint64_t position, uint8_t *out_channel)
{
	uint8_t header[HEADER_BYTES];

	copy_out(ring, position, header, sizeof(header));
	*out_channel = header[3];
	return (size_t)header[0] | (size_t)header[1] << 8 | (size_t)header[2] << 16;
}

static void put_piece(struct vial_ring *ring, uint8_t channel, const uint8_t *bytes, size_t size_bytes)
{
	uint8_t header[HEADER_BYTES] = { (uint8_t)size_bytes, (uint8_t)(size_bytes >> 8), (uint8_t)(size_bytes >> 16), channel };
	uint8_t ignored;

	while (ring->end + HEADER_BYTES + size_bytes - ring->first > VIAL_RING_BYTES) {
		size_t oldest = read_header(ring, ring->first, &ignored);

		ring->first += HEADER_BYTES + oldest;
		ring->dropped += oldest;
	}
	copy_in(ring, ring->end, header, sizeof(header));
	copy_in(ring, ring->end + HEADER_BYTES, bytes, size_bytes);
	ring->end += HEADER_BYTES + size_bytes;
}

void vial_ring_put(struct vial_ring *ring, uint8_t channel, const uint8_t *bytes, size_t size_bytes)
{
	while (size_bytes > 0) {
		size_t piece = size_bytes > MAX_PIECE ? MAX_PIECE : size_bytes;

		put_piece(ring, channel, bytes, piece);
		bytes += piece;
		size_bytes -= piece;
	}
}

size_t vial_ring_get(const struct vial_ring *ring, struct vial_ring_reader *reader, uint8_t *out_channel, uint8_t *out_bytes, size_t size_bytes)
{
	size_t length, left;

	if (reader->position < ring->first)
		*reader = (struct vial_ring_reader){ .position = ring->first };
	if (reader->position == ring->end)
		return 0;
	length = read_header(ring, reader->position, out_channel);
	left = length - reader->offset;
	if (size_bytes > left)
		size_bytes = left;
	copy_out(ring, reader->position + HEADER_BYTES + reader->offset, out_bytes, size_bytes);
	reader->offset += size_bytes;
	if (reader->offset == length)
		*reader = (struct vial_ring_reader){ .position = reader->position + HEADER_BYTES + length };
	return size_bytes;
}

size_t vial_ring_behind(const struct vial_ring *ring, const struct vial_ring_reader *reader)
{
	return ring->end - reader->position < VIAL_RING_BYTES ? (size_t)(ring->end - reader->position) : VIAL_RING_BYTES;
}

uint64_t vial_ring_seek(const struct vial_ring *ring, uint64_t since, struct vial_ring_reader *out_reader)
{
	uint64_t position = ring->first, number = ring->dropped;
	uint8_t ignored;

	for (size_t length; position < ring->end; position += HEADER_BYTES + length, number += length) {
		length = read_header(ring, position, &ignored);
		if (since >= number + length)
			continue;
		*out_reader = (struct vial_ring_reader){ .position = position, .offset = since > number ? (size_t)(since - number) : 0 };
		return since > number ? since : number;
	}
	*out_reader = (struct vial_ring_reader){ .position = ring->end };
	return number;
}
