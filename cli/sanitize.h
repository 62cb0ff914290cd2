/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox prints, made safe for a terminal. Colours (CSI … m) pass; everything else that drives a terminal does not:
 * cursor movement, window titles, clipboard, hyperlinks, device queries whose answers would be typed into the user's shell,
 * 8-bit controls, and text made invisible. A stream filter: a sequence may be cut anywhere between two writes.
 */
#pragma once

#include <glib.h>

enum { VIAL_SANITIZE_SEQUENCE_MAX = 128 }; /* a colour is shorter; what is longer is dropped */

typedef struct {
	gboolean drops_color;
	/* sanitize.c's own; all zero to start with */
	int state;
	char sequence[VIAL_SANITIZE_SEQUENCE_MAX];
	guint sequence_size;
	gboolean has_color; /* a colour is switched on: the end of the stream switches it off */
} VialSanitizer;

/* Appends the harmless part of `bytes` to `out`. */
void vial_sanitize(VialSanitizer *sanitizer, const char *bytes, gsize size, GString *out);
/* The end: an unfinished sequence is dropped, colours are reset. */
void vial_sanitize_end(VialSanitizer *sanitizer, GString *out);

/* One line of text for a table or message: controls and newlines become blanks, invalid UTF-8 U+FFFD. To be freed. */
char *vial_sanitize_line(const char *text);
