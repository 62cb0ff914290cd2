/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory there is to give: the machine's, or what the control groups that viald is in (a container's, a service's) leave of it, whichever is
 * the tightest. Version 1 and 2. A few small reads of kernel files; never blocks for long.
 */
#pragma once

#include <glib.h>

typedef struct {
	gint64 total_bytes;
	gint64 available_bytes;    /* without anybody having to swap */
	gboolean is_control_group; /* else the machine */
} VialMemory;

/* `root` is "" for this machine; tests have a folder with their own proc/ and sys/fs/cgroup/. FALSE: unknown. */
gboolean vial_memory_read(const char *root, VialMemory *out);
/* Of the total, rounded down. */
guint vial_memory_percent(const VialMemory *memory);
