/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of a run on its way into the guest. A cell too large for OPEN comes as DATA: OPEN says "code_bytes" in place of "code", exactly so many
 * bytes follow on the main channel, then EOF. Until then nothing of the run exists; whatever is wrong ends the operation, and nothing ran.
 *
 * All code that has arrived and not begun to run shares one budget.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "stream.h"

/* The largest cell. */
#define VIAL_MAX_CODE_BYTES (16u * 1024u * 1024u)
/* Of all that wait. */
#define VIAL_MAX_WAITING_CODE_BYTES (64u * 1024u * 1024u)

/* Takes the stream over. When the code is there, `fn` gets the request with a field "code". */
void vial_code_receive(struct vial_stream *stream, json_t *request, void (*fn)(struct vial_stream *stream, json_t *request));

/* False after closing the stream: too much is waiting already. What is taken is given back. */
bool vial_code_take_budget(struct vial_stream *stream, size_t size_bytes);
void vial_code_give_budget(size_t size_bytes);
