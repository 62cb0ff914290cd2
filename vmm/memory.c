/* SPDX-License-Identifier: Apache-2.0 */
/* See memory.h. The mapping never moves, so any thread may use it. */
#include "memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define HUGE_PAGE_BYTES (2ull << 20)

static int check_size(uint64_t size_bytes)
{
	if (size_bytes < HUGE_PAGE_BYTES || size_bytes > VIAL_MEMORY_MAX_BYTES || size_bytes % HUGE_PAGE_BYTES != 0)
		return -EINVAL;
	return 0;
}

/* Aligned to a huge page, or the kernel could not use them at the edges. */
static uint8_t *reserve(uint64_t size_bytes)
{
	uint64_t padded = size_bytes + HUGE_PAGE_BYTES;
	uint8_t *area = mmap(NULL, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *start;

	if (area == MAP_FAILED)
		return NULL;
	start = (uint8_t *)(((uintptr_t)area + HUGE_PAGE_BYTES - 1) & ~(uintptr_t)(HUGE_PAGE_BYTES - 1));
	if (start > area)
		munmap(area, (size_t)(start - area));
	if (area + padded > start + size_bytes)
		munmap(start + size_bytes, (size_t)(area + padded - (start + size_bytes)));
	return start;
}

static int map(struct vial_memory *memory, int fd, uint64_t size_bytes)
{
	int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
	uint8_t *start = reserve(size_bytes);

	if (!start)
		return -ENOMEM;
	if (mmap(start, size_bytes, PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED) {
		int result = -errno;

		munmap(start, size_bytes);
		return result;
	}
	*memory = (struct vial_memory){ .base = start, .size_bytes = size_bytes, .is_file = fd >= 0 };
	/* A core dump of the monitor is no place for the guest's secrets. */
	madvise(start, size_bytes, MADV_DONTDUMP);
	return 0;
}

int vial_memory_create(struct vial_memory *memory, uint64_t size_bytes)
{
	int result = check_size(size_bytes);

	if (result == 0)
		result = map(memory, -1, size_bytes);
	if (result == 0)
		madvise(memory->base, size_bytes, MADV_HUGEPAGE);
	return result;
}

int vial_memory_map_file(struct vial_memory *memory, int fd, uint64_t size_bytes)
{
	struct stat info;
	int result = check_size(size_bytes);

	if (result < 0)
		return result;
	if (fstat(fd, &info) < 0)
		return -errno;
	/* A shorter file would kill us with SIGBUS at the first access behind its end. */
	if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size < size_bytes)
		return -EINVAL;
	return map(memory, fd, size_bytes);
}

void vial_memory_close(struct vial_memory *memory)
{
	if (memory->base)
		munmap(memory->base, memory->size_bytes);
	*memory = (struct vial_memory){ 0 };
}

uint64_t vial_memory_low_bytes(const struct vial_memory *memory)
{
	return memory->size_bytes < VIAL_LOW_RAM_END ? memory->size_bytes : VIAL_LOW_RAM_END;
}

uint64_t vial_memory_high_bytes(const struct vial_memory *memory)
{
	return memory->size_bytes - vial_memory_low_bytes(memory);
}

void *vial_memory_at(const struct vial_memory *memory, uint64_t address, uint64_t length)
{
	uint64_t low = vial_memory_low_bytes(memory);
	uint64_t high = vial_memory_high_bytes(memory);

	if (address < low && length <= low - address)
		return memory->base + address;
	if (address >= VIAL_HIGH_RAM_START && address - VIAL_HIGH_RAM_START < high && length <= high - (address - VIAL_HIGH_RAM_START))
		return memory->base + low + (address - VIAL_HIGH_RAM_START);
	return NULL;
}

int vial_memory_read(const struct vial_memory *memory, uint64_t address, void *out, size_t length)
{
	const void *from = vial_memory_at(memory, address, length);

	if (!from)
		return -EFAULT;
	memcpy(out, from, length);
	return 0;
}

int vial_memory_write(const struct vial_memory *memory, uint64_t address, const void *data, size_t length)
{
	void *to = vial_memory_at(memory, address, length);

	if (!to)
		return -EFAULT;
	memcpy(to, data, length);
	return 0;
}

int vial_memory_discard(const struct vial_memory *memory, uint64_t address, uint64_t length)
{
	void *at = vial_memory_at(memory, address, length);

	if (!at || address % VIAL_PAGE_BYTES || length % VIAL_PAGE_BYTES)
		return -EFAULT;
	if (!memory->is_file)
		return madvise(at, length, MADV_DONTNEED) < 0 ? -errno : 0;
	/* Dropping a private page of a file mapping would bring the snapshot's content back: put fresh memory there instead. */
	if (mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
		return -errno;
	madvise(at, length, MADV_DONTDUMP);
	return 0;
}
