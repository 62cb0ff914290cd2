/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files of the guest's root that the agent itself reads and writes (passwd, hostname). The guest owns them, so they may be
 * anything: only regular files are read, never blocking, up to a limit; writing replaces, following no link.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* *out_text is NUL-ended and to be freed. 0, -EFBIG, -EINVAL (not a regular file) or another errno. */
int vial_file_read(const char *path, size_t max_bytes, char **out_text);
/* The same relative to a directory; for the agent's own procfs and cgroup directories, whose files have no size. */
int vial_file_read_at(int directory_fd, const char *path, char *buffer, size_t size_bytes);
int vial_file_write_at(int directory_fd, const char *path, const char *text);
/* Written beside the target and renamed over it. */
int vial_file_replace(const char *path, const char *text, size_t size_bytes, mode_t mode);
