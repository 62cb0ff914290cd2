/* SPDX-License-Identifier: Apache-2.0 */
/* See snapshot.h. Pages that are zero, or were never touched, become holes. */
#include "snapshot.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "files.h"

#define CHUNK_PAGES 512u

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

static int write_chunk(const struct vial_memory *memory, int fd, uint64_t first, unsigned count, uint64_t *total)
{
	const uint8_t *base = memory->base + first * VIAL_PAGE_BYTES;
	unsigned char resident[CHUNK_PAGES];
	unsigned run = 0;

	/* Only for anonymous memory does "not resident" mean "never touched" (there is no swap for a guest that matters). */
	if (memory->is_file || mincore((void *)(uintptr_t)base, count * VIAL_PAGE_BYTES, resident) < 0)
		memset(resident, 1, sizeof(resident));
	for (unsigned i = 0; i <= count; i++) {
		int result;

		if (i < count && (resident[i] & 1) && !is_zero(base + i * VIAL_PAGE_BYTES)) {
			run++;
			continue;
		}
		if (run == 0)
			continue;
		result = write_run(fd, base + (i - run) * VIAL_PAGE_BYTES, run * VIAL_PAGE_BYTES, (first + i - run) * VIAL_PAGE_BYTES);
		if (result < 0)
			return result;
		*total += run * VIAL_PAGE_BYTES;
		run = 0;
	}
	return 0;
}

static int write_memory(const struct vial_memory *memory, int fd, uint64_t *total)
{
	uint64_t pages = memory->size_bytes / VIAL_PAGE_BYTES;
	int result = ftruncate(fd, (off_t)memory->size_bytes) < 0 ? -errno : 0;

	for (uint64_t first = 0; first < pages && result == 0; first += CHUNK_PAGES)
		result = write_chunk(memory, fd, first, pages - first < CHUNK_PAGES ? (unsigned)(pages - first) : CHUNK_PAGES, total);
	return result;
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

void vial_snapshot_write(struct vial_machine *machine, const struct vial_state_writer *state, const struct vial_snapshot_fds *fds,
			 struct vial_snapshot_result *out_result)
{
	uint64_t started = vial_clock_ns();

	*out_result = (struct vial_snapshot_result){ 0 };
	out_result->result = write_memory(&machine->memory, fds->memory, &out_result->memory_bytes);
	if (out_result->result == 0)
		out_result->result = write_disks(machine, fds->disks, &out_result->disk_bytes);
	/* The state last: a snapshot without it is visibly unfinished. */
	if (out_result->result == 0)
		out_result->result = vial_file_write_all(fds->state, state->bytes, state->size_bytes);
	out_result->duration_us = (vial_clock_ns() - started) / 1000;
}
