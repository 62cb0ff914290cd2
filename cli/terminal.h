/* SPDX-License-Identifier: Apache-2.0 */
/* The user's terminal: size, raw mode, and its restoration on every way out (return, exit, signal, crash, stop and continue). */
#pragma once

#include <glib.h>

/* The size of the terminal behind stdout (or stdin, stderr); FALSE when there is none. */
gboolean vial_terminal_size(int *out_rows, int *out_columns);
/* From now on every way out restores the mode that the terminal behind stdin has now. FALSE when stdin is none. */
gboolean vial_terminal_guard(void);
/* Guards it and puts it into raw mode. */
gboolean vial_terminal_raw(void);
/* Undoes it; harmless when nothing is to undo. Async-signal-safe. */
void vial_terminal_restore(void);
/* Has the size changed since last asked? A change also wakes vial_terminal_resize_fd(). */
int vial_terminal_resize_fd(void);
gboolean vial_terminal_take_resize(void);
/* A full-screen program that died leaves its modes behind: back to the normal screen, cursor, mouse and colours. */
void vial_terminal_reset_modes(void);
