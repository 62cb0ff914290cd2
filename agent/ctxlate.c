/* SPDX-License-Identifier: Apache-2.0 */
/* See ctxlate.h: a list of pieces, the oldest dropped first. */
#include "ctxlate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

/* Small writes share a piece, so that a chatty thread costs bytes and not list entries. */
#define PIECE_BYTES 4096u

struct piece {
	struct piece *next;
	uint8_t channel;
	size_t size;
	uint8_t bytes[PIECE_BYTES];
};

struct vial_late {
	struct piece *first, *last;
	size_t size;
	uint64_t dropped;
};

static void drop_oldest(struct vial_late *late)
{
	struct piece *piece = late->first;

	late->first = piece->next;
	if (!late->first)
		late->last = NULL;
	late->size -= piece->size;
	late->dropped += piece->size;
	free(piece);
}

static struct piece *piece_for(struct vial_late *late, uint8_t channel)
{
	struct piece *piece = late->last;

	if (piece && piece->channel == channel && piece->size < PIECE_BYTES)
		return piece;
	piece = malloc(sizeof(*piece));
	if (!piece)
		return NULL;
	piece->next = NULL;
	piece->channel = channel;
	piece->size = 0;
	if (late->last)
		late->last->next = piece;
	else
		late->first = piece;
	late->last = piece;
	return piece;
}

void vial_late_add(struct vial_late **late, uint8_t channel, const uint8_t *bytes, size_t size_bytes)
{
	if (!*late)
		*late = calloc(1, sizeof(**late));
	while (*late && size_bytes > 0) {
		struct piece *piece = piece_for(*late, channel);
		size_t part = piece ? PIECE_BYTES - piece->size : 0;

		if (!piece)
			return;
		if (part > size_bytes)
			part = size_bytes;
		memcpy(piece->bytes + piece->size, bytes, part);
		piece->size += part;
		(*late)->size += part;
		bytes += part;
		size_bytes -= part;
		while ((*late)->size > VIAL_LATE_BYTES && (*late)->first != (*late)->last)
			drop_oldest(*late);
	}
}

void vial_late_take(struct vial_late **late, void (*fn)(uint8_t channel, const uint8_t *bytes, size_t size_bytes, void *data), void *data)
{
	struct vial_late *taken = *late;
	char note[96];

	*late = NULL;
	if (!taken)
		return;
	if (taken->dropped > 0) {
		int length = snprintf(note, sizeof(note), "[%llu bytes of output between runs dropped]\n", (unsigned long long)taken->dropped);

		fn(VIAL_WIRE_STDERR, (const uint8_t *)note, (size_t)length, data);
	}
	for (struct piece *piece = taken->first; piece; piece = piece->next)
		fn(piece->channel, piece->bytes, piece->size, data);
	vial_late_free(taken);
}

void vial_late_free(struct vial_late *late)
{
	while (late && late->first)
		drop_oldest(late);
	free(late);
}
