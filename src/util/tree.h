/* SPDX-License-Identifier: Apache-2.0 */
/* Whole folders of ours: removed or measured without ever following a link. Blocking. */
#pragma once

#include <glib.h>

/* Removes `path` and all below it. Missing is fine. Stays on one file system and never follows symbolic links. */
gboolean vial_tree_remove(const char *path);
/* The same on a worker thread, for callers on the main loop who need not know when. */
void vial_tree_remove_later(const char *path);

/* Bytes allocated on disk by the files directly or deeper below `path`. */
gint64 vial_tree_size(const char *path);

/* Flushes every regular file below `path` and the folders themselves to stable storage. */
gboolean vial_tree_sync(const char *path, GError **error);
