/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's end of the wire: reads frames from descriptor 0 and hands them to streams and hello.c, gathers outgoing frames in
 * one buffer and writes them to descriptor 1. Knows freezing, epochs and how much may be queued; stream.c knows credit.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

int vial_connection_init(int in_fd, int out_fd);
/* Writes what can be written and lets streams fill the room. True when there is more to do at once. */
bool vial_connection_pump(void);

/* How many bytes producers may still queue; 0 when congested or frozen. */
size_t vial_connection_room(void);
bool vial_connection_is_frozen(void);

/* Queues one frame; never fails for want of room, so callers check room for anything big. */
void vial_connection_send(uint32_t stream, uint16_t epoch, uint8_t type, uint8_t channel, const void *payload, size_t size_bytes);
/* `size_bytes` of payload space at the end of the queue, to be committed or forgotten at once. NULL when out of memory. */
uint8_t *vial_connection_reserve(size_t size_bytes);
void vial_connection_commit(uint32_t stream, uint16_t epoch, uint8_t type, uint8_t channel, size_t size_bytes);

/* Called by hello.c: frames of the life before the snapshot are thrown away. */
void vial_connection_discard_output(void);
void vial_connection_thaw(void);

/* Feeds one frame as if it had been received: the entry of the fuzz target too. */
void vial_connection_dispatch(const struct vial_wire_frame *frame);
