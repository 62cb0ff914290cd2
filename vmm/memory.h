/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest memory. The one way to reach it: every address and length that came from the guest goes through these functions,
 * which answer for the whole range or not at all. Layout: RAM from 0 to at most 3 GiB, a hole for devices up to 4 GiB, the rest
 * of the RAM above. On the host it is one mapping without the hole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIAL_PAGE_BYTES 4096ull
#define VIAL_LOW_RAM_END 0xc0000000ull
#define VIAL_HIGH_RAM_START 0x100000000ull
#define VIAL_MEMORY_MAX_BYTES (64ull << 30)

struct vial_memory {
	uint8_t *base;
	uint64_t size_bytes;
	bool is_file; /* a private mapping of a snapshot: untouched pages come from the page cache */
};

/* Anonymous, with transparent huge pages: fork(2) copies page tables, and huge pages make that 40 times cheaper. */
int vial_memory_create(struct vial_memory *memory, uint64_t size_bytes);
/* A private view of a snapshot's memory file. The file must stay as it is for the life of the mapping. */
int vial_memory_map_file(struct vial_memory *memory, int fd, uint64_t size_bytes);
void vial_memory_close(struct vial_memory *memory);

uint64_t vial_memory_low_bytes(const struct vial_memory *memory);
uint64_t vial_memory_high_bytes(const struct vial_memory *memory);

/* The host address of [address, address + length), or NULL when any part of it is not RAM. */
void *vial_memory_at(const struct vial_memory *memory, uint64_t address, uint64_t length);
int vial_memory_read(const struct vial_memory *memory, uint64_t address, void *out, size_t length);
int vial_memory_write(const struct vial_memory *memory, uint64_t address, const void *data, size_t length);

/* Gives whole pages back to the host; the guest reads zeros there afterwards. */
int vial_memory_discard(const struct vial_memory *memory, uint64_t address, uint64_t length);
