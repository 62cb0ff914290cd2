/* SPDX-License-Identifier: Apache-2.0 */
/* See rng.h; virtio 1.2, 5.4. The answer's size is ours to choose, so a huge buffer never makes us produce much. */
#include "rng.h"

#include <sys/random.h>

#define PIECE_BYTES 1024u

static int serve(struct vial_virtio *device, unsigned queue)
{
	struct vial_chain chain;
	int result;

	while ((result = vial_queue_pop(&device->queues[queue], device->memory, &chain)) > 0) {
		uint8_t bytes[PIECE_BYTES];
		uint32_t wanted = chain.writable_bytes < sizeof(bytes) ? chain.writable_bytes : sizeof(bytes);
		ssize_t got = getrandom(bytes, wanted, 0);

		result = vial_virtio_finish(device, queue, chain.head, got > 0 ? vial_chain_write(&chain, 0, bytes, (uint32_t)got) : 0);
		if (result < 0)
			break;
	}
	return result;
}

static const struct vial_virtio_ops ops = {
	.name = "rng",
	.type = VIAL_VIRTIO_RNG,
	.queue_count = 1,
	.queue_size = 64,
	.serve = serve,
};

void vial_rng_init(struct vial_virtio *device, const struct vial_memory *memory)
{
	vial_virtio_init(device, &ops, NULL, memory, 0);
}
