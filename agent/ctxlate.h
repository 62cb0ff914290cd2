/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output that came while no run was open: from threads, timers and background processes of earlier cells. The latest VIAL_LATE_BYTES
 * are kept and open the context's next run; how much was dropped before is said there.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define VIAL_LATE_BYTES (64u * 1024u)

struct vial_late;

/* *late is made when it is needed; nothing is kept when there is no memory. */
void vial_late_add(struct vial_late **late, uint8_t channel, const uint8_t *bytes, size_t size_bytes);
/* Hands out everything in order and frees it. */
void vial_late_take(struct vial_late **late, void (*fn)(uint8_t channel, const uint8_t *bytes, size_t size_bytes, void *data), void *data);
void vial_late_free(struct vial_late *late);
