/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio-console with one generic port, /dev/vport0p0 in the guest: the byte pipe to the agent. Not a terminal: the multiport
 * protocol announces the port without calling it a console, so Linux moves pages, not 16-byte pieces through a tty.
 */
#pragma once

#include "device.h"
#include "vmm/pipe.h"

#define VIAL_CONSOLE_MAX_CONTROL 8u

struct vial_console {
	struct vial_pipe to_guest;
	struct vial_pipe from_guest;
	/* Control messages on their way to the driver, oldest first. */
	struct vial_console_message {
		uint32_t port;
		uint16_t event;
		uint16_t value;
	} control[VIAL_CONSOLE_MAX_CONTROL];
	unsigned control_count;
	bool is_open; /* the agent has the port open */
	uint64_t in_bytes, out_bytes;
};

int vial_console_init(struct vial_virtio *device, struct vial_console *console, const struct vial_memory *memory);
