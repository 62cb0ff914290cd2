/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: each virtio device behind its registers. The input is a guest: its first byte picks the device, then come commands, each an access to
 * a register, a piece written to memory, or a turn of the device thread. Whatever it does, the device may not leave guest memory (the sanitizer
 * sees), hang, or come to a state that its own save and load refuse.
 */
#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/disk.h"
#include "vmm/virtio/balloon.h"
#include "vmm/virtio/blk.h"
#include "vmm/virtio/console.h"
#include "vmm/virtio/net.h"
#include "vmm/virtio/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MEMORY_BYTES (4ull << 20)
#define DISK_BYTES (1u << 20)
#define MAX_COMMANDS 400u
/* Guest addresses of the input's writes: 2 bytes times 64, so that rings and descriptors are easily hit. */
#define ADDRESS_UNIT 64u

static struct vial_memory memory;
static struct vial_console console;
static struct vial_net net;
static struct vial_balloon balloon;
static struct vial_blk blk;

static int make_file(uint64_t size_bytes)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	assert(fd >= 0 && ftruncate(fd, (off_t)size_bytes) == 0);
	return fd;
}

static void make_device(struct vial_virtio *device, uint8_t kind)
{
	static const uint8_t mac[6] = { 2 };

	switch (kind % 6) {
	case 0:
		assert(vial_console_init(device, &console, &memory) == 0);
		vial_pipe_put(&console.to_guest, "some bytes for the guest", 24);
		break;
	case 1:
	case 2:
		memset(&blk, 0, sizeof(blk));
		assert(vial_disk_init(&blk.disk, make_file(DISK_BYTES), kind % 6 == 1 ? make_file(0) : -1, DISK_BYTES) == 0);
		vial_blk_init(device, &blk, &memory, "fuzz");
		break;
	case 3:
		vial_rng_init(device, &memory);
		break;
	case 4:
		vial_balloon_init(device, &balloon, &memory);
		break;
	default:
		assert(vial_net_init(device, &net, &memory, -1, mac) == 0);
	}
}

/* As a driver would, all queues at fixed places: most inputs would never get that far by themselves. */
static void bring_up(struct vial_virtio *device)
{
	static const uint32_t start[][2] = { { 0x70, 0 }, { 0x70, 1 }, { 0x70, 3 }, { 0x24, 1 }, { 0x20, 1 }, { 0x24, 0 } };
	uint32_t features = (uint32_t)device->offered_features, value;

	for (size_t i = 0; i < sizeof(start) / sizeof(*start); i++)
		vial_virtio_write(device, start[i][0], (const uint8_t *)&start[i][1], 4);
	vial_virtio_write(device, 0x20, (const uint8_t *)&features, 4);
	vial_virtio_write(device, 0x70, (const uint8_t *)&(uint32_t){ 11 }, 4);
	for (uint32_t queue = 0; queue < device->ops->queue_count; queue++) {
		const uint32_t registers[][2] = { { 0x30, queue },
			                          { 0x38, 16 },
			                          { 0x80, 0x1000 + queue * 0x1000 },
			                          { 0x84, 0 },
			                          { 0x90, 0x1400 + queue * 0x1000 },
			                          { 0x94, 0 },
			                          { 0xa0, 0x1800 + queue * 0x1000 },
			                          { 0xa4, 0 },
			                          { 0x44, 1 } };

		for (size_t i = 0; i < sizeof(registers) / sizeof(*registers); i++)
			vial_virtio_write(device, registers[i][0], (const uint8_t *)&registers[i][1], 4);
	}
	value = 15;
	vial_virtio_write(device, 0x70, (const uint8_t *)&value, 4);
}

static void check_state(struct vial_virtio *device)
{
	struct vial_state_writer writer;
	static struct vial_state state;

	vial_state_begin(&writer);
	vial_virtio_save(device, 0, &writer);
	assert(vial_state_end(&writer) == 0 && vial_state_parse(writer.bytes, writer.size_bytes, &state) == 0);
	assert(vial_virtio_load(device, 0, &state) == 0);
	vial_state_clear(&writer);
}

static size_t command(struct vial_virtio *device, const uint8_t *at, size_t left)
{
	uint32_t value;
	uint16_t address;
	uint8_t buffer[8];

	switch (at[0] % 6) {
	case 0: /* write a register: offset / 4, value */
		if (left < 6)
			return left;
		memcpy(&value, at + 2, 4);
		vial_virtio_write(device, at[1] * 4u, (const uint8_t *)&value, 4);
		return 6;
	case 1: /* read any part of the page */
		if (left < 4)
			return left;
		memcpy(&address, at + 1, 2);
		vial_virtio_read(device, address, buffer, 1u << (at[3] & 3));
		return 4;
	case 2: /* write memory: address, length, bytes */
		if (left < 4)
			return left;
		memcpy(&address, at + 1, 2);
		value = at[3] % 65 < left - 4 ? at[3] % 65 : (uint32_t)(left - 4);
		vial_memory_write(&memory, (uint64_t)address * ADDRESS_UNIT, at + 4, value);
		return 4 + value;
	case 3:
		vial_virtio_serve(device);
		return 1;
	case 4:
		vial_virtio_serve_host(device);
		return 1;
	default:
		bring_up(device);
		return 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct vial_virtio device;
	size_t at = 1;

	if (size < 2)
		return 0;
	if (!memory.base)
		assert(vial_memory_create(&memory, MEMORY_BYTES) == 0);
	memset(memory.base, 0, 0x8000);
	make_device(&device, bytes[0]);
	for (unsigned i = 0; i < MAX_COMMANDS && at < size; i++)
		at += command(&device, bytes + at, size - at);
	vial_virtio_serve(&device);
	check_state(&device);
	vial_virtio_close(&device);
	return 0;
}
