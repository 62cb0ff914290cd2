/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last VIAL_RING_BYTES that a background process wrote, stdout and stderr in the order they were read, each piece with its channel.
 * Readers hold an absolute position; one that fell behind goes on at the oldest piece left.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define VIAL_RING_BYTES (1024u * 1024u)

struct vial_ring;

struct vial_ring *vial_ring_new(void);
void vial_ring_free(struct vial_ring *ring);
void vial_ring_put(struct vial_ring *ring, uint8_t channel, const uint8_t *bytes, size_t size_bytes);

/* Bytes are numbered from the first that was ever put, headers not counted. */
struct vial_ring_reader {
	uint64_t position; /* of a piece; 0 is the beginning of time */
	size_t offset;     /* into that piece */
};
/* Copies from one piece; 0 when there is nothing new. *out_channel says whose it is. */
size_t vial_ring_get(const struct vial_ring *ring, struct vial_ring_reader *reader, uint8_t *out_channel, uint8_t *out_bytes, size_t size_bytes);
/* How much of the ring lies between a reader and what comes next; all of it once it was overrun. */
size_t vial_ring_behind(const struct vial_ring *ring, const struct vial_ring_reader *reader);
/* The next byte that it gets is number `since`, or the oldest that is left, or the one that comes next: which, is returned. */
uint64_t vial_ring_seek(const struct vial_ring *ring, uint64_t since, struct vial_ring_reader *out_reader);
