/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot's memory file has what the guest's memory had, wherever the kernel kept it: here, nowhere yet, or in swap. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <unistd.h>

#include "vmm/snapshot.h"

#define MEMORY_BYTES (4ull << 20)
#define PAGE 4096u
#define SWAP_BYTES (8u << 20)

static char swap_path[256];

static void swap_off(void)
{
	swapoff(swap_path);
	unlink(swap_path);
}

/* Eight megabytes of swap for a moment; false where the machine does not let us. */
static bool swap_on(void)
{
	static uint8_t header[PAGE];
	uint32_t version = 1, last_page = SWAP_BYTES / PAGE - 1;
	const char *folder = getenv("VIAL_DATA_TEST");
	int fd;

	snprintf(swap_path, sizeof(swap_path), "%s/vial-swap-XXXXXX", folder ? folder : "/var/tmp");
	fd = mkstemp(swap_path);
	if (fd < 0)
		return false;
	memcpy(header + 1024, &version, 4);
	memcpy(header + 1028, &last_page, 4);
	memcpy(header + PAGE - 10, "SWAPSPACE2", 10);
	for (unsigned at = 0; at < SWAP_BYTES; at += PAGE) /* no holes: the kernel wants every block */
		assert(pwrite(fd, at ? header + 2048 : header, at ? PAGE / 2 : PAGE, at) > 0);
	assert(ftruncate(fd, SWAP_BYTES) == 0 && fsync(fd) == 0);
	close(fd);
	if (swapon(swap_path, 0) == 0) {
		atexit(swap_off);
		return true;
	}
	fprintf(stderr, "no swap can be made here (%s): swapped pages are not looked at\n", strerror(errno));
	unlink(swap_path);
	return false;
}

static uint64_t pagemap_entry(int fd, const void *at)
{
	uint64_t entry = 0;

	assert(pread(fd, &entry, 8, (off_t)((uintptr_t)at / PAGE * 8)) == 8);
	return entry;
}

static bool is_touched(const uint8_t *touched, unsigned page)
{
	return touched[page / 8] >> (page % 8) & 1;
}

static void write_and_compare(struct vial_machine *machine, const uint8_t *touched, unsigned expected_pages)
{
	struct vial_state_writer state = { 0 };
	struct vial_snapshot_fds fds = { .state = memfd_create("state", MFD_CLOEXEC), .memory = memfd_create("memory", MFD_CLOEXEC) };
	struct vial_snapshot_result outcome;
	uint8_t *copy;

	vial_snapshot_write(machine, &state, touched, &fds, &outcome);
	assert(outcome.result == 0 && outcome.memory_bytes == expected_pages * (uint64_t)PAGE);
	copy = mmap(NULL, MEMORY_BYTES, PROT_READ, MAP_PRIVATE, fds.memory, 0);
	assert(copy != MAP_FAILED && memcmp(copy, machine->memory.base, MEMORY_BYTES) == 0);
	munmap(copy, MEMORY_BYTES);
	close(fds.state);
	close(fds.memory);
}

static void anonymous_memory(bool has_swap)
{
	static struct vial_machine machine;
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	unsigned swapped = 0;
	uint8_t *touched;

	assert(pagemap >= 0 && vial_memory_create(&machine.memory, MEMORY_BYTES) == 0);
	madvise(machine.memory.base, MEMORY_BYTES, MADV_NOHUGEPAGE);
	for (unsigned page = 0; page < 600; page++) /* more than one run */
		memset(machine.memory.base + page * PAGE, (int)page % 255 + 1, PAGE);
	memset(machine.memory.base + 700 * PAGE, 7, PAGE);
	memset(machine.memory.base + 710 * PAGE, 0, PAGE); /* touched, but nothing in it */
	if (has_swap)
		madvise(machine.memory.base, MEMORY_BYTES, MADV_PAGEOUT);
	for (unsigned page = 0; page < 600; page++)
		swapped += pagemap_entry(pagemap, machine.memory.base + page * PAGE) >> 62 & 1;
	printf("%u of 600 pages are in swap\n", swapped);
	touched = vial_snapshot_touched(&machine.memory, pagemap);
	assert(touched && is_touched(touched, 0) && is_touched(touched, 599) && !is_touched(touched, 600) && is_touched(touched, 700));
	for (unsigned page = 0; page < 600; page++)
		assert(is_touched(touched, page));
	write_and_compare(&machine, touched, 601);
	write_and_compare(&machine, NULL, 601); /* not known: all are looked at */
	free(touched);
	vial_memory_close(&machine.memory);
	close(pagemap);
}

/* Restored from a file, untouched pages hold what the file has. */
static void memory_of_a_file(void)
{
	static struct vial_machine machine;
	int fd = memfd_create("image", MFD_CLOEXEC), pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	assert(ftruncate(fd, MEMORY_BYTES) == 0 && pwrite(fd, "in the file", 11, 5 * PAGE) == 11);
	assert(vial_memory_map_file(&machine.memory, fd, MEMORY_BYTES) == 0);
	memset(machine.memory.base + 9 * PAGE, 9, PAGE);
	assert(!vial_snapshot_touched(&machine.memory, pagemap));
	write_and_compare(&machine, NULL, 2);
	vial_memory_close(&machine.memory);
	close(pagemap);
	close(fd);
}

int main(void)
{
	bool has_swap = swap_on();

	anonymous_memory(has_swap);
	memory_of_a_file();
	return 0;
}
