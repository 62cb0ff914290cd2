/* SPDX-License-Identifier: Apache-2.0 */
/* A 16550 that only speaks: the kernel's log when something must be debugged. Off unless the configuration names a log. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* A guest may not fill the disk with its log. */
#define VIAL_SERIAL_MAX_BYTES (4u << 20)

struct vial_serial {
	int log_fd; /* -1: no serial port */
	int interrupt_fd;
	uint64_t written_bytes;
	uint8_t ier, lcr, mcr, scr, dll, dlm, fcr;
	bool has_empty_interrupt; /* "transmitter empty" is pending */
	pthread_mutex_t lock;
};

void vial_serial_init(struct vial_serial *serial, int log_fd);
void vial_serial_access(struct vial_serial *serial, unsigned offset, bool is_write, uint8_t *value);
void vial_serial_save(const struct vial_serial *serial, struct vial_state_writer *writer);
int vial_serial_load(struct vial_serial *serial, const struct vial_state *state);
