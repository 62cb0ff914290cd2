/* SPDX-License-Identifier: Apache-2.0 */
/* virtio-blk over a vial_disk: one queue, requests served in order by the device thread. */
#pragma once

#include "device.h"
#include "vmm/disk.h"

struct vial_blk {
	struct vial_disk disk;
	char serial[20];
	uint64_t reads, writes, read_bytes, written_bytes;
};

/* Takes the disk over. `serial` is what the guest finds in /sys/block/vdX/serial. */
void vial_blk_init(struct vial_virtio *device, struct vial_blk *blk, const struct vial_memory *memory, const char *serial);
