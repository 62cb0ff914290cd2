/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See balloon.h; virtio 1.2, 5.5. The target is always 0 pages. Free page reporting hands us blocks of 2 MiB and more about two seconds after
 * they were freed; the guest may not expect anything of their content, and we give zeros. Queue 2 would be statistics, queue 3 hinting:
 * neither is offered, so the reporting queue is number 2.
 */
#include "balloon.h"

#include <errno.h>

#define F_REPORTING (1ull << 5)
enum { QUEUE_INFLATE = 0, QUEUE_DEFLATE = 1, QUEUE_REPORTING = 2 };

/* The buffers of a chain are host addresses that were checked when it was popped; back to a guest address for the discard. */
static void give_back(struct vial_virtio *device, const struct vial_buffer *buffer)
{
	struct vial_balloon *balloon = device->self;
	uint64_t offset = (uint64_t)(buffer->data - device->memory->base);
	uint64_t low = vial_memory_low_bytes(device->memory);
	uint64_t address = offset < low ? offset : offset - low + VIAL_HIGH_RAM_START;

	if (buffer->length > 0 && vial_memory_discard(device->memory, address, buffer->length) == 0)
		balloon->returned_bytes += buffer->length;
}

static int serve(struct vial_virtio *device, unsigned queue)
{
	struct vial_chain chain;
	int result;

	while ((result = vial_queue_pop(&device->queues[queue], device->memory, &chain)) > 0) {
		for (unsigned i = 0; queue == QUEUE_REPORTING && i < chain.writable_count; i++)
			give_back(device, &chain.buffers[chain.readable_count + i]);
		result = vial_virtio_finish(device, queue, chain.head, 0);
		if (result < 0)
			break;
	}
	return result;
}

static const struct vial_virtio_ops ops = {
	.name = "balloon",
	.type = VIAL_VIRTIO_BALLOON,
	.queue_count = 3,
	.queue_size = 128,
	.serve = serve,
};

void vial_balloon_init(struct vial_virtio *device, struct vial_balloon *balloon, const struct vial_memory *memory)
{
	*balloon = (struct vial_balloon){ 0 };
	vial_virtio_init(device, &ops, balloon, memory, F_REPORTING);
}
