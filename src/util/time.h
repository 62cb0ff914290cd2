/* SPDX-License-Identifier: Apache-2.0 */
/* Wall clock for records and answers, monotonic clock for deadlines: a clock set backwards must not revive a sandbox. */
#pragma once

#include <glib.h>

gint64 vial_time_now_ms(void);       /* since the epoch */
gint64 vial_time_monotonic_ms(void); /* since some start */

/*
 * How long to wait for a guest or its host process: `usual_ms`, or as many times longer as the setting time_scale says (for emulated
 * and overloaded machines). The scale is set once, at start.
 */
void vial_time_set_scale(guint scale);
guint vial_time_scale(void);
guint vial_time_scaled_ms(guint usual_ms);
/* A timer that gives up on a peer after the scaled time. What the peer has sent meanwhile is handled first, should we be the ones who were late. */
guint vial_time_add_deadline(guint usual_ms, GSourceFunc fn, gpointer data);

/* "2025-01-31T23:59:59.123Z". format() allocates. */
#define VIAL_TIME_TEXT_SIZE 32
void vial_time_fill(char out[VIAL_TIME_TEXT_SIZE], gint64 time_ms);
char *vial_time_format(gint64 time_ms);
gboolean vial_time_parse(const char *text, gint64 *out_ms);
