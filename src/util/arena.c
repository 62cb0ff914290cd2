/* SPDX-License-Identifier: Apache-2.0 */
#include "util/arena.h"

#include <string.h>

#define BLOCK_BYTES 4096

struct VialArenaBlock {
	VialArenaBlock *next;
	_Alignas(max_align_t) char bytes[];
};

void vial_arena_init(VialArena *arena)
{
	arena->blocks = NULL;
	arena->at = arena->first;
	arena->end = arena->first + sizeof(arena->first);
}

void vial_arena_clear(VialArena *arena)
{
	while (arena->blocks) {
		VialArenaBlock *block = arena->blocks;
		arena->blocks = block->next;
		g_free(block);
	}
	vial_arena_init(arena);
}

static void *alloc_bytes(VialArena *arena, gsize size)
{
	if ((gsize)(arena->end - arena->at) < size) {
		gsize room = MAX(size, BLOCK_BYTES);
		VialArenaBlock *block = g_malloc(sizeof(*block) + room);
		block->next = arena->blocks;
		arena->blocks = block;
		arena->at = block->bytes;
		arena->end = block->bytes + room;
	}
	void *result = arena->at;
	arena->at += size;
	return result;
}

void *vial_arena_alloc(VialArena *arena, gsize size)
{
	gsize misalignment = (guintptr)arena->at % _Alignof(max_align_t);

	if (misalignment)
		arena->at = MIN(arena->end, arena->at + _Alignof(max_align_t) - misalignment);
	return alloc_bytes(arena, size);
}

char *vial_arena_copy(VialArena *arena, const char *text, gsize size)
{
	char *copy = alloc_bytes(arena, size + 1);

	memcpy(copy, text, size);
	copy[size] = '\0';
	return copy;
}
