/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A split virtqueue as the device sees it (virtio 1.2, 2.7). Everything in it was written by the guest and is checked each time it is
 * used: ring addresses against guest memory, indices against the size, chains against a hop limit. Descriptors are copied before they
 * are looked at, so the guest cannot change its mind between check and use.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vmm/memory.h"

#define VIAL_QUEUE_MAX_SIZE 256u
/* A chain may not be longer than the largest queue; its bytes are bounded too, so lengths never overflow 32 bits. */
#define VIAL_CHAIN_MAX_BYTES (512u << 20)

struct vial_queue {
	uint16_t max_size;
	uint16_t size;
	bool is_ready;
	uint64_t descriptors;
	uint64_t available;
	uint64_t used;
	uint16_t next_available;
	uint16_t next_used;
};

struct vial_buffer {
	uint8_t *data;
	uint32_t length;
};

/* One request: first what the driver sent, then the room for the answer. */
struct vial_chain {
	uint16_t head;
	uint16_t readable_count;
	uint16_t writable_count;
	uint32_t readable_bytes;
	uint32_t writable_bytes;
	struct vial_buffer buffers[VIAL_QUEUE_MAX_SIZE];
};

void vial_queue_reset(struct vial_queue *queue, uint16_t max_size);
/* Size a power of two within the maximum, addresses aligned and in RAM. 0 or -EINVAL. */
int vial_queue_check(const struct vial_queue *queue, const struct vial_memory *memory);

/* 1: a chain; 0: none waiting; -EPROTO: the guest broke the rules, the device needs a reset. */
int vial_queue_pop(struct vial_queue *queue, const struct vial_memory *memory, struct vial_chain *out_chain);
/* Puts the chain just popped back: the device has no room for it yet. */
void vial_queue_unpop(struct vial_queue *queue);
int vial_queue_push(struct vial_queue *queue, const struct vial_memory *memory, uint16_t head, uint32_t written_bytes);
/* Whether the driver wants to hear of used buffers. */
bool vial_queue_wants_interrupt(const struct vial_queue *queue, const struct vial_memory *memory);

/* Copies out of the readable, or into the writable part of a chain; returns how much was copied. */
uint32_t vial_chain_read(const struct vial_chain *chain, uint32_t offset, void *out, uint32_t length);
uint32_t vial_chain_write(const struct vial_chain *chain, uint32_t offset, const void *data, uint32_t length);
