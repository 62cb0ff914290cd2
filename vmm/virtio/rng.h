/* SPDX-License-Identifier: Apache-2.0 */
/* virtio-rng: the host's getrandom(2), a bounded piece per request. */
#pragma once

#include "device.h"

void vial_rng_init(struct vial_virtio *device, const struct vial_memory *memory);
