/* SPDX-License-Identifier: Apache-2.0 */
/* The ACPI tables by which a stock kernel finds its processors, interrupts and virtio-mmio devices. Written once, before boot. */
#pragma once

#include <stdbool.h>

#include "memory.h"

struct vial_acpi_config {
	unsigned vcpus;
	unsigned devices; /* virtio, in order: this order makes vda, vdb, ... */
	bool has_serial;
};

/* 0, or -ENOSPC / -EFAULT. */
int vial_acpi_write(const struct vial_memory *memory, const struct vial_acpi_config *config);
