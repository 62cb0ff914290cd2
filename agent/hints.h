/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What whoever reads a run's or a command's output should know and no program in the sandbox can tell him: that there is no network because nobody
 * allowed one, and that the time limit was reached. Added to stderr as a line of its own, after everything else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIAL_HINTS_BYTES 384
#define VIAL_HINTS_TIMEOUT_BYTES 64
/* At least what the longest complaint has. */
#define VIAL_HINTS_TAIL_BYTES 40

struct vial_hints {
	size_t looked_bytes;
	bool has_missed_network;
	bool is_within_line; /* of stderr */
	/* What stdout and stderr ended with so far: curl writes its messages byte by byte. */
	char tail[2][VIAL_HINTS_TAIL_BYTES];
	size_t tail_bytes[2];
};

/* As the host says it, at HELLO and when the policy changes. */
void vial_hints_set_offline(bool is_offline);
bool vial_hints_is_offline(void);

/* Output goes by. */
void vial_hints_look(struct vial_hints *hints, bool is_stderr, const void *bytes, size_t size_bytes);
/* "timed out after 2.5 s" */
void vial_hints_timeout(int64_t timeout_ms, char out_text[VIAL_HINTS_TIMEOUT_BYTES]);
/* What is to be added to stderr; its size, 0 for nothing. `timed_out_ms` is 0 when it did not time out or that has been said. */
size_t vial_hints_end(const struct vial_hints *hints, int64_t timed_out_ms, char out_text[VIAL_HINTS_BYTES]);
