/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and reading the operator's files, before the jail closes. Nothing here follows a symbolic link in the last component. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct vial_mapped_file {
	const uint8_t *bytes;
	size_t size_bytes;
};

/* Wakes who waits for an eventfd; -1 is nobody. */
void vial_file_post(int fd);
/* Accepts -1, which it leaves behind. */
void vial_file_close(int *fd);
/* Descriptor or -errno. */
int vial_file_open_read(const char *path);
/* A file without a name in `directory`: gone with its last descriptor, whatever happens. */
int vial_file_open_unnamed(const char *directory);
/* Appended to, made if missing, mode 0600. */
int vial_file_open_log(const char *path);
int vial_file_map(const char *path, size_t max_bytes, struct vial_mapped_file *out_file);
void vial_file_unmap(struct vial_mapped_file *file);
int vial_file_write_all(int fd, const void *data, size_t length);
