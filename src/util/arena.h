/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed all at once: the strings of one request. Allocation is a pointer step; the first block lives inside
 * the owner, so an ordinary request costs no malloc at all.
 */
#pragma once

#include <glib.h>
#include <stddef.h>

#define VIAL_ARENA_INLINE_BYTES 1536

typedef struct VialArenaBlock VialArenaBlock;
typedef struct {
	VialArenaBlock *blocks;
	char *at;
	char *end;
	_Alignas(max_align_t) char first[VIAL_ARENA_INLINE_BYTES];
} VialArena;

void vial_arena_init(VialArena *arena);
void vial_arena_clear(VialArena *arena);
/* Uninitialised, aligned for anything. Never NULL. */
void *vial_arena_alloc(VialArena *arena, gsize size);
/* A NUL-terminated copy of `size` bytes. */
char *vial_arena_copy(VialArena *arena, const char *text, gsize size);
