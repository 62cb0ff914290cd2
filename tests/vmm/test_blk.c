/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the block device and the layers behind it. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_driver.h"
#include "vmm/virtio/blk.h"

#define BASE_BYTES (1u << 20)
#define DISK_BYTES (2u << 20)

static struct vial_memory memory;

static int make_base(void)
{
	int fd = memfd_create("base", MFD_CLOEXEC);
	uint8_t sector[512];

	for (unsigned i = 0; i < BASE_BYTES / 512; i++) {
		memset(sector, (int)(i % 251), sizeof(sector));
		assert(write(fd, sector, sizeof(sector)) == sizeof(sector));
	}
	return fd;
}

static int make_overlay(void)
{
	return memfd_create("overlay", MFD_CLOEXEC);
}

static uint8_t byte_at(struct vial_disk *disk, uint64_t offset)
{
	uint8_t value;

	assert(vial_disk_read(disk, offset, &value, 1) == 0);
	return value;
}

static void layers_hold_what_was_written_to_them(void)
{
	struct vial_disk disk, child;
	uint8_t data[10000];
	uint64_t bytes;
	int flat = memfd_create("flat", MFD_CLOEXEC);
	uint8_t bitmap[(DISK_BYTES / 4096 + 7) / 8];

	memset(data, 0xaa, sizeof(data));
	assert(vial_disk_init(&disk, make_base(), make_overlay(), DISK_BYTES) == 0);
	assert(byte_at(&disk, 512) == 1 && byte_at(&disk, BASE_BYTES) == 0 && byte_at(&disk, DISK_BYTES - 1) == 0);
	/* Odd edges: the rest of the touched clusters comes from below. */
	assert(vial_disk_write(&disk, 5000, data, sizeof(data)) == 0);
	assert(byte_at(&disk, 4999) == 9 && byte_at(&disk, 5000) == 0xaa && byte_at(&disk, 14999) == 0xaa && byte_at(&disk, 15000) == 29);
	assert(vial_disk_read(&disk, DISK_BYTES - 1, data, 2) == -EINVAL && vial_disk_write(&disk, UINT64_MAX, data, 2) == -EINVAL);

	/* A fork: the parent's new top and the child's are apart, what is below is shared. */
	assert(vial_disk_freeze(&disk, make_overlay()) == 0 && disk.layer_count == 2);
	child = disk;
	child.map = mmap(NULL, disk.clusters, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(child.map, disk.map, disk.clusters);
	child.layers[1] = make_overlay();
	memset(data, 0xbb, sizeof(data));
	assert(vial_disk_write(&disk, 5000, data, 1) == 0 && byte_at(&child, 5000) == 0xaa && byte_at(&disk, 5000) == 0xbb);
	assert(vial_disk_write(&child, 6000, data, 1) == 0 && byte_at(&disk, 6000) == 0xaa && byte_at(&child, 6000) == 0xbb);

	/* A snapshot of it, and a disk from that. */
	assert(vial_disk_flatten(&child, flat, &bytes) == 0 && bytes == 3 * 4096);
	vial_disk_bitmap(&child, bitmap);
	vial_disk_close(&disk);
	assert(vial_disk_init(&disk, make_base(), make_overlay(), DISK_BYTES) == 0);
	assert(vial_disk_add_frozen(&disk, flat, bitmap, sizeof(bitmap) - 1) == -EINVAL);
	flat = memfd_create("flat", MFD_CLOEXEC);
	assert(vial_disk_flatten(&child, flat, &bytes) == 0);
	assert(vial_disk_add_frozen(&disk, flat, bitmap, sizeof(bitmap)) == 0);
	assert(byte_at(&disk, 5000) == 0xaa && byte_at(&disk, 6000) == 0xbb && byte_at(&disk, 512) == 1);
	vial_disk_close(&disk);
}

static void an_unwritten_top_is_not_frozen(void)
{
	struct vial_disk disk;

	assert(vial_disk_init(&disk, make_base(), make_overlay(), 0) == 0);
	for (int i = 0; i < 300; i++)
		assert(vial_disk_freeze(&disk, make_overlay()) == 0);
	assert(disk.layer_count == 1);
	vial_disk_close(&disk);
}

/* However often a machine writes and is forked: its disk says what was written, and so do those of its children. */
static void layers_beyond_the_limit_are_merged(void)
{
	struct vial_disk disk, child;
	int flat = memfd_create("flat", MFD_CLOEXEC);
	uint64_t bytes;

	assert(vial_disk_init(&disk, make_base(), make_overlay(), DISK_BYTES) == 0);
	for (unsigned i = 0; i < 2 * VIAL_DISK_MAX_LAYERS + 10; i++) {
		uint8_t value = (uint8_t)(i + 100);

		if (i == VIAL_DISK_MAX_LAYERS - 1) { /* a relative with a map of its own, just before they are merged */
			child = disk;
			child.map = mmap(NULL, disk.clusters, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memcpy(child.map, disk.map, disk.clusters);
			child.base_fd = dup(disk.base_fd);
			for (unsigned layer = 0; layer < child.layer_count; layer++)
				child.layers[layer] = dup(disk.layers[layer]);
		}
		/* One cluster that every layer has, and one that only this one has. */
		assert(vial_disk_write(&disk, 0, &value, 1) == 0);
		assert(vial_disk_write(&disk, (1 + i % 20) * 4096ull, &value, 1) == 0);
		assert(vial_disk_freeze(&disk, make_overlay()) == 0);
		assert(disk.layer_count <= VIAL_DISK_MAX_LAYERS);
		assert(byte_at(&disk, 0) == value && byte_at(&disk, (1 + i % 20) * 4096ull) == value && byte_at(&disk, 512) == 1);
		if (i > 20)
			assert(byte_at(&disk, (1 + (i - 7) % 20) * 4096ull) == (uint8_t)(i - 7 + 100));
	}
	assert(vial_disk_private_bytes(&disk) == 21 * 4096);
	assert(vial_disk_flatten(&disk, flat, &bytes) == 0 && bytes == 21 * 4096);
	assert(byte_at(&child, 0) == (uint8_t)(VIAL_DISK_MAX_LAYERS - 2 + 100));
	assert(byte_at(&child, (1 + (VIAL_DISK_MAX_LAYERS - 5) % 20) * 4096ull) == (uint8_t)(VIAL_DISK_MAX_LAYERS - 5 + 100));
	close(flat);
	vial_disk_close(&child);
	vial_disk_close(&disk);
}

static uint8_t request(struct vial_virtio *device, uint32_t type, uint64_t sector, uint32_t length, uint16_t data_flags)
{
	uint8_t *header = vial_memory_at(&memory, FAKE_DATA, 16), *status = vial_memory_at(&memory, FAKE_DATA + 0x100, 1);

	memset(header, 0, 16);
	memcpy(header, &type, 4);
	memcpy(header + 8, &sector, 8);
	*status = 0xee;
	fake_descriptor(device, 0, 0, FAKE_DATA, 16, DESC_NEXT, length ? 1 : 2);
	fake_descriptor(device, 0, 1, FAKE_DATA + 0x1000, length, (uint16_t)(DESC_NEXT | data_flags), 2);
	fake_descriptor(device, 0, 2, FAKE_DATA + 0x100, 1, DESC_WRITE, 0);
	fake_offer(device, 0, 0);
	vial_virtio_serve(device);
	return *status;
}

static void requests_are_answered(void)
{
	struct vial_virtio device;
	struct vial_blk blk = { 0 };
	uint8_t *data = vial_memory_at(&memory, FAKE_DATA + 0x1000, 8192);
	uint64_t capacity;

	assert(vial_disk_init(&blk.disk, make_base(), make_overlay(), DISK_BYTES) == 0);
	vial_blk_init(&device, &blk, &memory, "root");
	fake_bring_up(&device);
	vial_virtio_read(&device, 0x100, (uint8_t *)&capacity, 8);
	assert(capacity == DISK_BYTES / 512);
	assert(request(&device, 0, 3, 1024, DESC_WRITE) == 0 && data[0] == 3 && data[1023] == 4);
	memset(data, 0x77, 1024);
	assert(request(&device, 1, 3, 1024, 0) == 0);
	memset(data, 0, 1024);
	assert(request(&device, 0, 4, 512, DESC_WRITE) == 0 && data[0] == 0x77);
	assert(request(&device, 4, 0, 0, 0) == 0);
	assert(request(&device, 8, 0, 20, DESC_WRITE) == 0 && memcmp(data, "root", 5) == 0);
	assert(request(&device, 77, 0, 512, DESC_WRITE) == 2);
	assert(request(&device, 0, DISK_BYTES / 512, 512, DESC_WRITE) == 1);
	assert(request(&device, 0, UINT64_MAX / 2, 512, DESC_WRITE) == 1);
	assert(request(&device, 1, UINT64_MAX, 512, 0) == 1);
	assert(request(&device, 0, 0, 100, DESC_WRITE) == 1);
	vial_virtio_close(&device);
}

static void a_read_only_disk_cannot_be_written(void)
{
	struct vial_virtio device;
	struct vial_blk blk = { 0 };

	assert(vial_disk_init(&blk.disk, make_base(), -1, 0) == 0);
	vial_blk_init(&device, &blk, &memory, "ro");
	fake_bring_up(&device);
	assert(device.offered_features & (1u << 5));
	assert(request(&device, 1, 0, 512, 0) == 1 && byte_at(&blk.disk, 0) == 0);
	assert(vial_disk_freeze(&blk.disk, -1) == -EROFS);
	vial_virtio_close(&device);
}

int main(void)
{
	assert(vial_memory_create(&memory, FAKE_MEMORY_BYTES) == 0);
	layers_hold_what_was_written_to_them();
	an_unwritten_top_is_not_frozen();
	layers_beyond_the_limit_are_merged();
	requests_are_answered();
	a_read_only_disk_cannot_be_written();
	puts("5 block tests passed");
	return 0;
}
