/* SPDX-License-Identifier: Apache-2.0 */
/* See queue.h. Called by the device thread with the device's lock held. */
#include "queue.h"

#include <errno.h>
#include <string.h>

#define DESCRIPTOR_NEXT 1u
#define DESCRIPTOR_WRITE 2u
#define AVAILABLE_NO_INTERRUPT 1u

struct descriptor {
	uint64_t address;
	uint32_t length;
	uint16_t flags;
	uint16_t next;
};

struct used_element {
	uint32_t id;
	uint32_t length;
};

void vial_queue_reset(struct vial_queue *queue, uint16_t max_size)
{
	*queue = (struct vial_queue){ .max_size = max_size };
}

int vial_queue_check(const struct vial_queue *queue, const struct vial_memory *memory)
{
	uint32_t size = queue->size;

	if (size == 0 || size > queue->max_size || size > VIAL_QUEUE_MAX_SIZE || (size & (size - 1)) != 0)
		return -EINVAL;
	if (queue->descriptors % 16 || queue->available % 2 || queue->used % 4)
		return -EINVAL;
	if (!vial_memory_at(memory, queue->descriptors, size * sizeof(struct descriptor)) ||
	    !vial_memory_at(memory, queue->available, 6 + 2ull * size) ||
	    !vial_memory_at(memory, queue->used, 6 + sizeof(struct used_element) * size))
		return -EINVAL;
	return 0;
}

static int load_u16(const struct vial_memory *memory, uint64_t address, int order, uint16_t *out_value)
{
	const uint16_t *at = vial_memory_at(memory, address, sizeof(*at));

	if (!at || (uintptr_t)at % sizeof(*at))
		return -EPROTO;
	*out_value = order == __ATOMIC_ACQUIRE ? __atomic_load_n(at, __ATOMIC_ACQUIRE) : __atomic_load_n(at, __ATOMIC_RELAXED);
	return 0;
}

static int add_descriptor(struct vial_chain *chain, const struct descriptor *descriptor, const struct vial_memory *memory)
{
	bool is_writable = descriptor->flags & DESCRIPTOR_WRITE;
	uint32_t *total = is_writable ? &chain->writable_bytes : &chain->readable_bytes;
	unsigned count = chain->readable_count + chain->writable_count;
	uint8_t *data;

	/* Indirect tables are not offered; a readable buffer after a writable one is against the rules. */
	if ((descriptor->flags & ~(DESCRIPTOR_NEXT | DESCRIPTOR_WRITE)) || (!is_writable && chain->writable_count > 0))
		return -EPROTO;
	if (descriptor->length > VIAL_CHAIN_MAX_BYTES - *total)
		return -EPROTO;
	data = vial_memory_at(memory, descriptor->address, descriptor->length);
	if (!data)
		return -EPROTO;
	chain->buffers[count] = (struct vial_buffer){ data, descriptor->length };
	*total += descriptor->length;
	if (is_writable)
		chain->writable_count++;
	else
		chain->readable_count++;
	return 0;
}

static int walk(const struct vial_queue *queue, const struct vial_memory *memory, struct vial_chain *chain)
{
	uint16_t index = chain->head;

	for (unsigned hops = 0; hops < queue->size; hops++) {
		struct descriptor descriptor;

		if (index >= queue->size ||
		    vial_memory_read(memory, queue->descriptors + index * sizeof(descriptor), &descriptor, sizeof(descriptor)) < 0 ||
		    add_descriptor(chain, &descriptor, memory) < 0)
			return -EPROTO;
		if (!(descriptor.flags & DESCRIPTOR_NEXT))
			return 1;
		index = descriptor.next;
	}
	return -EPROTO; /* a loop */
}

int vial_queue_pop(struct vial_queue *queue, const struct vial_memory *memory, struct vial_chain *out_chain)
{
	uint16_t available;

	if (!queue->is_ready)
		return 0;
	if (vial_queue_check(queue, memory) < 0 || load_u16(memory, queue->available + 2, __ATOMIC_ACQUIRE, &available) < 0)
		return -EPROTO;
	if (available == queue->next_available)
		return 0;
	if ((uint16_t)(available - queue->next_available) > queue->size)
		return -EPROTO;
	out_chain->readable_count = out_chain->writable_count = 0;
	out_chain->readable_bytes = out_chain->writable_bytes = 0;
	if (load_u16(memory, queue->available + 4 + 2ull * (queue->next_available & (queue->size - 1u)), __ATOMIC_RELAXED, &out_chain->head) < 0)
		return -EPROTO;
	if (walk(queue, memory, out_chain) < 0)
		return -EPROTO;
	queue->next_available++;
	return 1;
}

void vial_queue_unpop(struct vial_queue *queue)
{
	queue->next_available--;
}

int vial_queue_push(struct vial_queue *queue, const struct vial_memory *memory, uint16_t head, uint32_t written_bytes)
{
	struct used_element element = { head, written_bytes };
	uint16_t *index;

	if (vial_queue_check(queue, memory) < 0 ||
	    vial_memory_write(memory, queue->used + 4 + sizeof(element) * (queue->next_used & (queue->size - 1u)), &element, sizeof(element)) < 0)
		return -EPROTO;
	queue->next_used++;
	index = vial_memory_at(memory, queue->used + 2, sizeof(*index));
	if (!index)
		return -EPROTO;
	__atomic_store_n(index, queue->next_used, __ATOMIC_RELEASE);
	return 0;
}

bool vial_queue_wants_interrupt(const struct vial_queue *queue, const struct vial_memory *memory)
{
	uint16_t flags;

	/* The store of the used index must be seen before the flags are read, or both sides may wait for each other. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return load_u16(memory, queue->available, __ATOMIC_RELAXED, &flags) == 0 && !(flags & AVAILABLE_NO_INTERRUPT);
}

static uint32_t copy(const struct vial_buffer *buffers, unsigned count, uint32_t offset, uint8_t *bytes, uint32_t length, bool is_write)
{
	uint32_t done = 0;

	for (unsigned i = 0; i < count && done < length; i++) {
		uint32_t part;

		if (offset >= buffers[i].length) {
			offset -= buffers[i].length;
			continue;
		}
		part = buffers[i].length - offset;
		if (part > length - done)
			part = length - done;
		if (is_write)
			memcpy(buffers[i].data + offset, bytes + done, part);
		else
			memcpy(bytes + done, buffers[i].data + offset, part);
		done += part;
		offset = 0;
	}
	return done;
}

uint32_t vial_chain_read(const struct vial_chain *chain, uint32_t offset, void *out, uint32_t length)
{
	return copy(chain->buffers, chain->readable_count, offset, out, length, false);
}

uint32_t vial_chain_write(const struct vial_chain *chain, uint32_t offset, const void *data, uint32_t length)
{
	return copy(chain->buffers + chain->readable_count, chain->writable_count, offset, (uint8_t *)(uintptr_t)data, length, true);
}
