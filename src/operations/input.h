/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of this folder: bytes that are all there already, on their way into a guest as fast as it gives credit. */
#pragma once

#include "operations/guest.h"

typedef struct {
	GBytes *bytes; /* NULL: nothing, or all of it has gone */
	gsize sent;
} VialInput;

/* Sends what there is room for, and the end after the last byte. Call it when the stream is open, and whenever it is writable again. */
void vial_input_push(VialInput *input, VialOperation *operation);
void vial_input_clear(VialInput *input);
