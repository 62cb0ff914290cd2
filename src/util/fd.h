/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors with a guard, and the few whole-file operations the daemon needs. Everything opened here is close-on-
 * exec. Blocking; for start-up and worker threads, or for files known to be small and local.
 */
#pragma once

#include <glib.h>
#include <sys/types.h>
#include <unistd.h>

static inline void vial_fd_clear(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* `vial_autofd int fd = -1;` closes at the end of the scope; g_steal_fd-like handing over with vial_fd_steal(). */
#define vial_autofd __attribute__((cleanup(vial_fd_clear)))

static inline int vial_fd_steal(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

/* An existing directory or a new one with `mode` (and its parents 0755). Refuses a symbolic link at the last step. */
int vial_dir_open(const char *path, mode_t mode, GError **error);

/* The whole of a file of at most max_bytes, NUL-terminated after the data. A larger file is an error, not a cut. */
char *vial_file_read_at(int dir_fd, const char *name, gsize max_bytes, gsize *out_size, GError **error);

/*
 * Replaces a file in one step: written to a temporary name, fsync, rename, fsync of the directory. After a crash there is
 * the old content or the new, never a piece.
 */
gboolean vial_file_write_at(int dir_fd, const char *name, const void *data, gsize size, mode_t mode, GError **error);

/* write(2) until all is out, through EINTR and short writes. */
gboolean vial_fd_write_all(int fd, const void *data, gsize size, GError **error);
gboolean vial_fd_set_nonblocking(int fd, GError **error);
