/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for models and logs: without the control characters and escape sequences (CSI, OSC, DCS, ...) with which a program
 * could hide text from one reader and show it to another. Line feed, carriage return and tab stay. Nothing here blocks.
 */
#pragma once

#include <glib.h>

/* Zero is the beginning. One per stream: a sequence may be cut by a chunk's end. */
typedef struct {
	guint8 state;
} VialAnsi;

/* Takes them out of valid UTF-8, in place. `text` must not end inside a character. */
void vial_ansi_strip(VialAnsi *ansi, GString *text);
/* The same for a whole text; new. Accepts NULL. */
char *vial_ansi_clean(const char *text);
