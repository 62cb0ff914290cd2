/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that are there for as long as a sandbox, at the price of one for all of them: GLib looks at each of its sources and asks the kernel
 * about each of their descriptors in every turn of the loop, and a run takes half a dozen turns. Main thread.
 */
#pragma once

#include <glib-unix.h>

/* As g_unix_fd_add_full(). `priority` is G_PRIORITY_DEFAULT or G_PRIORITY_LOW. To be removed before the descriptor is closed. */
guint vial_watch_add(int priority, int fd, GIOCondition condition, GUnixFDSourceFunc func, gpointer data, GDestroyNotify notify);
/* At any time, also within any watch's `func`: it is not called after this, and `notify` is, once `func` is over. */
void vial_watch_remove(guint id);
