/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/id.h"

static gboolean fail_errno(GError **error, const char *what, const char *name)
{
	int saved = errno;
	VialErrorCode code = saved == ENOSPC || saved == EDQUOT ? VIAL_ERROR_NO_SPACE : saved == ENOENT ? VIAL_ERROR_NOT_FOUND : VIAL_ERROR_INTERNAL;

	return vial_fail(error, code, "%s %s: %s", what, name, g_strerror(saved));
}

int vial_dir_open(const char *path, mode_t mode, GError **error)
{
	g_autofree char *parent = g_path_get_dirname(path);

	if (g_mkdir_with_parents(parent, 0755) < 0) {
		fail_errno(error, "cannot create the directory", parent);
		return -1;
	}
	if (mkdir(path, mode) < 0 && errno != EEXIST) {
		fail_errno(error, "cannot create the directory", path);
		return -1;
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		fail_errno(error, "cannot open the directory", path);
	return fd;
}

char *vial_file_read_at(int dir_fd, const char *name, gsize max_bytes, gsize *out_size, GError **error)
{
	vial_autofd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	guint8 block[16384];

	if (fd < 0) {
		fail_errno(error, "cannot open", name);
		return NULL;
	}
	for (;;) {
		ssize_t n = read(fd, block, sizeof(block));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			fail_errno(error, "cannot read", name);
			return NULL;
		}
		if (n == 0)
			break;
		if (bytes->len + (gsize)n > max_bytes) {
			vial_fail(error, VIAL_ERROR_TOO_LARGE, "%s is larger than %" G_GSIZE_FORMAT " bytes", name, max_bytes);
			return NULL;
		}
		g_byte_array_append(bytes, block, (guint)n);
	}
	if (out_size)
		*out_size = bytes->len;
	g_byte_array_append(bytes, (const guint8 *)"", 1);
	return (char *)g_byte_array_free(g_steal_pointer(&bytes), FALSE);
}

gboolean vial_fd_write_all(int fd, const void *data, gsize size, GError **error)
{
	const guint8 *at = data;

	while (size > 0) {
		ssize_t n = write(fd, at, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_errno(error, "cannot write to", "the file");
		at += n;
		size -= (gsize)n;
	}
	return TRUE;
}

gboolean vial_file_write_at(int dir_fd, const char *name, const void *data, gsize size, mode_t mode, GError **error)
{
	char tail[VIAL_ID_LENGTH + 1];

	vial_id_fill(tail);
	g_autofree char *temporary = g_strdup_printf(".%s.%s", name, tail);
	vial_autofd int fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return fail_errno(error, "cannot create", name);
	/* fchmod: the umask took bits away from openat's mode. */
	if (!vial_fd_write_all(fd, data, size, error)) {
		g_prefix_error(error, "%s: ", name);
	} else if (fchmod(fd, mode) < 0 || fsync(fd) < 0) {
		fail_errno(error, "cannot store", name);
	} else if (renameat(dir_fd, temporary, dir_fd, name) < 0) {
		fail_errno(error, "cannot rename into", name);
	} else {
		/* The file is in place; if the directory entry cannot be flushed, a crash may bring back the old one. */
		if (fsync(dir_fd) < 0 && errno != EINVAL)
			return fail_errno(error, "cannot store the directory of", name);
		return TRUE;
	}
	unlinkat(dir_fd, temporary, 0);
	return FALSE;
}

gboolean vial_fd_set_nonblocking(int fd, GError **error)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return fail_errno(error, "cannot make non-blocking", "a descriptor");
	return TRUE;
}
