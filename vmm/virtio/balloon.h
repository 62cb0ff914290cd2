/* SPDX-License-Identifier: Apache-2.0 */
/* virtio-balloon that never inflates: the guest only reports pages it has freed, and they go back to the host. */
#pragma once

#include "device.h"

struct vial_balloon {
	uint64_t returned_bytes;
};

void vial_balloon_init(struct vial_virtio *device, struct vial_balloon *balloon, const struct vial_memory *memory);
