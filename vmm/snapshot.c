/* SPDX-License-Identifier: Apache-2.0 */
/* See snapshot.h. Pages that are zero, or were never touched, become holes. */
#include "snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "files.h"

#define MAX_RUN_PAGES 512u
#define BATCH 512u
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)

static bool is_zero(const uint8_t *page)
{
	const uint64_t *words = (const uint64_t *)page;

	for (unsigned i = 0; i < VIAL_PAGE_BYTES / sizeof(*words); i += 8) {
		if (words[i] | words[i + 1] | words[i + 2] | words[i + 3] | words[i + 4] | words[i + 5] | words[i + 6] | words[i + 7])
			return false;
	}
	return true;
}

static int write_run(int fd, const uint8_t *data, size_t length, uint64_t offset)
{
	while (length > 0) {
		ssize_t part = pwrite(fd, data, length, (off_t)offset);

		if (part < 0 && errno != EINTR)
			return -errno;
		if (part > 0) {
			data += part;
			length -= (size_t)part;
			offset += (uint64_t)part;
		}
	}
	return 0;
}

/* Runs of neighbouring pages that hold something; the rest stays a hole. */
static int write_memory(const struct vial_memory *memory, const uint8_t *touched, int fd, uint64_t *total)
{
	uint64_t pages = memory->size_bytes / VIAL_PAGE_BYTES, run = 0;
	int result = ftruncate(fd, (off_t)memory->size_bytes) < 0 ? -errno : 0;

	for (uint64_t i = 0; i <= pages && result == 0; i++) {
		bool holds = i < pages && (!touched || touched[i / 8] >> (i % 8) & 1) && !is_zero(memory->base + i * VIAL_PAGE_BYTES);

		if (run > 0 && (!holds || run == MAX_RUN_PAGES)) {
			result = write_run(fd, memory->base + (i - run) * VIAL_PAGE_BYTES, run * VIAL_PAGE_BYTES, (i - run) * VIAL_PAGE_BYTES);
			*total += run * VIAL_PAGE_BYTES;
			run = 0;
		}
		run += holds;
	}
	return result;
}

uint8_t *vial_snapshot_touched(const struct vial_memory *memory, int pagemap_fd)
{
	uint64_t first = (uintptr_t)memory->base / VIAL_PAGE_BYTES, pages = memory->size_bytes / VIAL_PAGE_BYTES;
	uint8_t *touched;

	/* Pages of a file that were not touched hold what the file has. */
	if (memory->is_file || pagemap_fd < 0)
		return NULL;
	touched = calloc((pages + 7) / 8, 1);
	for (uint64_t at = 0; touched && at < pages; at += BATCH) {
		uint64_t entries[BATCH], count = pages - at < BATCH ? pages - at : BATCH;

		if (pread(pagemap_fd, entries, count * 8, (off_t)((first + at) * 8)) != (ssize_t)(count * 8)) {
			free(touched);
			return NULL;
		}
		for (uint64_t i = 0; i < count; i++)
			if (entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED))
				touched[(at + i) / 8] |= (uint8_t)(1u << ((at + i) % 8));
	}
	return touched;
}

unsigned vial_machine_writable_disks(const struct vial_machine *machine)
{
	unsigned count = 0;

	for (unsigned i = 0; i < machine->disk_count; i++)
		count += !vial_disk_is_read_only(&machine->blks[i].disk);
	return count;
}

static int write_disks(struct vial_machine *machine, const int *fds, uint64_t *total)
{
	unsigned at = 0;

	for (unsigned i = 0; i < machine->disk_count; i++) {
		uint64_t bytes = 0;
		int result;

		if (vial_disk_is_read_only(&machine->blks[i].disk))
			continue;
		result = vial_disk_flatten(&machine->blks[i].disk, fds[at++], &bytes);
		if (result < 0)
			return result;
		*total += bytes;
	}
	return 0;
}

void vial_snapshot_write(struct vial_machine *machine, const struct vial_state_writer *state, const uint8_t *touched,
                         const struct vial_snapshot_fds *fds, struct vial_snapshot_result *out_result)
{
	uint64_t started = vial_clock_ns();

	*out_result = (struct vial_snapshot_result){ 0 };
	out_result->result = write_memory(&machine->memory, touched, fds->memory, &out_result->memory_bytes);
	if (out_result->result == 0)
		out_result->result = write_disks(machine, fds->disks, &out_result->disk_bytes);
	/* The state last: a snapshot without it is visibly unfinished. */
	if (out_result->result == 0)
		out_result->result = vial_file_write_all(fds->state, state->bytes, state->size_bytes);
	out_result->duration_us = (vial_clock_ns() - started) / 1000;
}
