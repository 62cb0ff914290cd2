/* SPDX-License-Identifier: Apache-2.0 */
/* What connection.c and hello.c need from the table of open streams; op handlers use stream.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

/* OPEN, DATA, EVENT, EOF, CANCEL, CREDIT. */
void vial_streams_receive(const struct vial_wire_frame *frame);
/* Sends what waits and calls on_writable, a bounded number of times. True when more could be done at once. */
bool vial_streams_pump(void);
/* RESET: streams of another epoch are cancelled and their answers go nowhere. */
void vial_streams_reset(uint16_t epoch);
/* A new generation: every stream is dropped. */
void vial_streams_drop_all(void);
unsigned vial_streams_count(void);
