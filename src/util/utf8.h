/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest bytes as JSON text. Programs print what they like; what is not UTF-8 becomes U+FFFD, and a character that is cut
 * by a chunk's end waits for its other half.
 */
#pragma once

#include <glib.h>

typedef struct {
	guint8 pending[4];
	guint n_pending;
} VialUtf8;

/* Appends the valid form of bytes to `out`. */
void vial_utf8_feed(VialUtf8 *state, const void *bytes, gsize size, GString *out);
/* At the end: a character that never became whole is replaced. */
void vial_utf8_finish(VialUtf8 *state, GString *out);

/* Output collected up to a limit: text past it is counted, not kept. */
typedef struct {
	GString *text;
	VialUtf8 utf8;
	gsize limit_bytes;
	gboolean is_truncated;
} VialOutput;

void vial_output_init(VialOutput *output, gsize limit_bytes);
void vial_output_clear(VialOutput *output);
void vial_output_add(VialOutput *output, const void *bytes, gsize size);
void vial_output_finish(VialOutput *output);
