/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's side of a virtio-mmio device in plain memory: what a guest kernel does, for unit tests of the devices. */
#pragma once

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "vmm/memory.h"
#include "vmm/virtio/device.h"

#define FAKE_MEMORY_BYTES (8ull << 20)
#define FAKE_RING 0x100000ull /* queue n at + n * 0x10000 */
#define FAKE_RING_STRIDE 0x10000ull
#define FAKE_DATA 0x200000ull
#define FAKE_QUEUE_SIZE 16u

enum { DESC_NEXT = 1, DESC_WRITE = 2 };

static inline uint32_t fake_read32(struct vial_virtio *device, uint32_t offset)
{
	uint32_t value;

	vial_virtio_read(device, offset, (uint8_t *)&value, 4);
	return value;
}

static inline void fake_write32(struct vial_virtio *device, uint32_t offset, uint32_t value)
{
	vial_virtio_write(device, offset, (const uint8_t *)&value, 4);
}

static inline uint64_t fake_ring(unsigned queue)
{
	return FAKE_RING + queue * FAKE_RING_STRIDE;
}

static inline void fake_set_queue(struct vial_virtio *device, unsigned queue, uint32_t size, uint64_t ring)
{
	fake_write32(device, 0x30, queue);
	fake_write32(device, 0x38, size);
	fake_write32(device, 0x80, (uint32_t)ring);
	fake_write32(device, 0x84, (uint32_t)(ring >> 32));
	fake_write32(device, 0x90, (uint32_t)(ring + 0x2000));
	fake_write32(device, 0x94, (uint32_t)(ring >> 32));
	fake_write32(device, 0xa0, (uint32_t)(ring + 0x4000));
	fake_write32(device, 0xa4, (uint32_t)(ring >> 32));
	fake_write32(device, 0x44, 1);
}

/* Resets, negotiates everything offered, sets all queues up and goes live. */
static inline void fake_bring_up(struct vial_virtio *device)
{
	fake_write32(device, 0x70, 0);
	fake_write32(device, 0x70, 1);
	fake_write32(device, 0x70, 3);
	for (uint32_t i = 0; i < 2; i++) {
		fake_write32(device, 0x14, i);
		fake_write32(device, 0x24, i);
		fake_write32(device, 0x20, fake_read32(device, 0x10));
	}
	fake_write32(device, 0x70, 11);
	assert(fake_read32(device, 0x70) == 11);
	for (unsigned i = 0; i < device->ops->queue_count; i++) {
		memset(vial_memory_at(device->memory, fake_ring(i), FAKE_RING_STRIDE), 0, FAKE_RING_STRIDE);
		fake_set_queue(device, i, FAKE_QUEUE_SIZE, fake_ring(i));
		assert(fake_read32(device, 0x44) == 1);
	}
	fake_write32(device, 0x70, 15);
	assert(vial_virtio_is_running(device));
}

static inline void fake_descriptor(struct vial_virtio *device, unsigned queue, unsigned index, uint64_t address, uint32_t length, uint16_t flags,
                                   uint16_t next)
{
	uint8_t *at = vial_memory_at(device->memory, fake_ring(queue) + index * 16ull, 16);

	memcpy(at, &address, 8);
	memcpy(at + 8, &length, 4);
	memcpy(at + 12, &flags, 2);
	memcpy(at + 14, &next, 2);
}

static inline void fake_offer(struct vial_virtio *device, unsigned queue, uint16_t head)
{
	uint16_t *available = vial_memory_at(device->memory, fake_ring(queue) + 0x2000, 64);

	available[2 + available[1] % FAKE_QUEUE_SIZE] = head;
	available[1]++;
}

static inline uint16_t fake_used_index(struct vial_virtio *device, unsigned queue)
{
	return ((uint16_t *)vial_memory_at(device->memory, fake_ring(queue) + 0x4000, 64))[1];
}

/* The length the device reported for its n-th used buffer. */
static inline uint32_t fake_used_length(struct vial_virtio *device, unsigned queue, unsigned n)
{
	uint32_t *used = vial_memory_at(device->memory, fake_ring(queue) + 0x4004, 8 * FAKE_QUEUE_SIZE);

	return used[2 * (n % FAKE_QUEUE_SIZE) + 1];
}
