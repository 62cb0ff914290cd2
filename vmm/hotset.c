/* SPDX-License-Identifier: Apache-2.0 */
/* See hotset.h. File: magic, memory size, then runs of { first page, pages | flag }, all u64 but the runs' u32. */
#include "hotset.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"

#define MAGIC 0x31544f484c414956ull /* "VIALHOT1" */
#define WRITTEN 0x80000000u
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_FILE (1ull << 61)
#define BATCH 512u
/* A gap this small is cheaper to fetch than to skip. */
#define MAX_GAP 4u

struct header {
	uint64_t magic;
	uint64_t memory_bytes;
};

struct run {
	uint32_t first;
	uint32_t pages; /* with WRITTEN: private copies, fetched for writing */
};

static int put_run(int fd, const struct run *run, uint64_t *total)
{
	if (run->pages == 0)
		return 0;
	*total += (uint64_t)(run->pages & ~WRITTEN) * VIAL_PAGE_BYTES;
	return vial_file_write_all(fd, run, sizeof(*run));
}

static bool extends(const struct run *run, uint32_t page, uint32_t flag)
{
	uint32_t end = run->first + (run->pages & ~WRITTEN);

	return run->pages && (run->pages & WRITTEN) == flag && page - end <= (flag ? 0 : MAX_GAP);
}

int vial_hotset_record(const struct vial_memory *memory, int pagemap_fd, int fd, uint64_t *out_bytes)
{
	struct header header = { MAGIC, memory->size_bytes };
	uint64_t first = (uintptr_t)memory->base / VIAL_PAGE_BYTES, pages = memory->size_bytes / VIAL_PAGE_BYTES, total = 0;
	struct run run = { 0 };
	int result = vial_file_write_all(fd, &header, sizeof(header));

	for (uint64_t at = 0; at < pages && result == 0; at += BATCH) {
		uint64_t entries[BATCH];
		uint64_t count = pages - at < BATCH ? pages - at : BATCH;

		if (pread(pagemap_fd, entries, count * 8, (off_t)((first + at) * 8)) != (ssize_t)(count * 8))
			return -EIO;
		for (uint64_t i = 0; i < count && result == 0; i++) {
			uint32_t flag = entries[i] & PAGEMAP_FILE ? 0 : WRITTEN;
			uint32_t page = (uint32_t)(at + i);

			if (!(entries[i] & PAGEMAP_PRESENT))
				continue;
			if (extends(&run, page, flag)) {
				run.pages = (page + 1 - run.first) | flag;
				continue;
			}
			result = put_run(fd, &run, &total);
			run = (struct run){ page, 1 | flag };
		}
	}
	if (result == 0)
		result = put_run(fd, &run, &total);
	*out_bytes = total;
	return result;
}

int vial_hotset_fetch(const struct vial_memory *memory, const uint8_t *list, size_t size_bytes, uint64_t *out_bytes)
{
	struct header header;
	uint64_t total = 0;

	if (size_bytes < sizeof(header) || (size_bytes - sizeof(header)) % sizeof(struct run))
		return -EPROTO;
	memcpy(&header, list, sizeof(header));
	if (header.magic != MAGIC || header.memory_bytes != memory->size_bytes)
		return -EPROTO;
	for (size_t at = sizeof(header); at < size_bytes; at += sizeof(struct run)) {
		struct run run;
		uint64_t start, length;

		memcpy(&run, list + at, sizeof(run));
		start = run.first * VIAL_PAGE_BYTES;
		length = (run.pages & ~WRITTEN) * VIAL_PAGE_BYTES;
		if (start > memory->size_bytes || length > memory->size_bytes - start)
			return -EPROTO;
		/* Linux 5.14; where it is missing the guest faults its pages in one by one. */
		if (madvise(memory->base + start, length, run.pages & WRITTEN ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
			total += length;
	}
	*out_bytes = total;
	return 0;
}
