/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.write: bytes from the host into a file. They are gathered under a temporary name beside the target, which is renamed over it at EOF: a broken
 * or cancelled upload changes nothing, and readers see the old file or the new one. An existing target keeps its owner and, unless the
 * request names one, its mode. `append` writes to the end of the file itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fsnotes.h"
#include "fspath.h"
#include "ops.h"

/* Enough tries for a name that nobody has. */
#define NAME_TRIES 16

struct writing {
	int fd;
	struct vial_user user;
	mode_t mode;
	uid_t owner;
	gid_t group;
	bool has_owner; /* the target was there before and belongs to somebody else */
	bool is_new;    /* it was not there */
	json_int_t written_bytes;
	json_t *notes;
	char target[PATH_MAX];
	char temporary[PATH_MAX]; /* empty when appending */
};

static void end_writing(struct writing *writing)
{
	close(writing->fd);
	json_decref(writing->notes);
	if (*writing->temporary && vial_user_enter(&writing->user) == 0) {
		unlink(writing->temporary);
		vial_user_leave();
	}
	free(writing);
}

static void on_data(struct vial_stream *stream, uint8_t channel, const uint8_t *bytes, size_t size_bytes)
{
	struct writing *writing = vial_stream_data(stream);
	size_t done = 0;

	while (done < size_bytes) {
		ssize_t written = write(writing->fd, bytes + done, size_bytes - done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0) {
			int error = errno;

			vial_stream_close_errno(stream, error, "cannot write %s", writing->target);
			end_writing(writing);
			return;
		}
		done += (size_t)written;
	}
	writing->written_bytes += (json_int_t)size_bytes;
	vial_stream_consumed(stream, size_bytes);
}

/* The mode is set by the user (his own file), the owner by root: only it can give a file away. */
static int put_in_place(struct writing *writing)
{
	int result;

	if (!*writing->temporary)
		return 0;
	result = vial_fs_notes_set(writing->fd, writing->notes);
	if (result < 0)
		return result;
	if (fchmod(writing->fd, writing->mode) < 0 || (writing->has_owner && fchown(writing->fd, writing->owner, writing->group) < 0))
		return -errno;
	result = vial_user_enter(&writing->user);
	if (result < 0)
		return result;
	if (rename(writing->temporary, writing->target) < 0)
		result = -errno;
	else
		*writing->temporary = '\0';
	vial_user_leave();
	return result;
}

static void on_eof(struct vial_stream *stream, uint8_t channel)
{
	struct writing *writing = vial_stream_data(stream);
	int result = put_in_place(writing);

	if (result < 0)
		vial_stream_close_errno(stream, result, "cannot write %s", writing->target);
	else
		vial_stream_close_ok(stream, json_pack("{s:I,s:o}", "bytes", writing->written_bytes, "path", vial_json_text(writing->target)));
	end_writing(writing);
}

static void on_cancel(struct vial_stream *stream)
{
	end_writing(vial_stream_data(stream));
	vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled");
}

static const struct vial_stream_handlers handlers = { .on_data = on_data, .on_eof = on_eof, .on_cancel = on_cancel };

/*
 * Looks at what is there. Through a link to the file it leads to, so that the link survives. A rename needs only rights on the directory, but to
 * the user this is a write to the file: without the right to that it is refused.
 */
static int examine_target(struct writing *writing, bool has_mode)
{
	char real[PATH_MAX];
	struct stat info;

	if (realpath(writing->target, real))
		strcpy(writing->target, real);
	if (stat(writing->target, &info) < 0) {
		writing->is_new = errno == ENOENT;
		return writing->is_new ? 0 : -errno;
	}
	if (S_ISDIR(info.st_mode))
		return -EISDIR;
	if (!S_ISREG(info.st_mode))
		return -ENODEV;
	if (faccessat(AT_FDCWD, writing->target, W_OK, AT_EACCESS) < 0)
		return -errno;
	if (!has_mode)
		writing->mode = info.st_mode & 01777;
	writing->owner = info.st_uid;
	writing->group = info.st_gid;
	writing->has_owner = info.st_uid != writing->user.uid || info.st_gid != writing->user.gid;
	if (writing->has_owner) /* nobody makes set-uid programs for others */
		writing->mode &= 01777;
	return 0;
}

/* Whoever watches the directory sees only the rename: the name says whether it replaces something (src/surfaces/e2b/changes.c). */
static int open_temporary(struct writing *writing)
{
	int directory_length = (int)(strrchr(writing->target, '/') - writing->target);

	for (int i = 0; i < NAME_TRIES; i++) {
		unsigned number;
		int fd;

		if (syscall(SYS_getrandom, &number, sizeof(number), 0) < 0)
			return -errno;
		if (snprintf(writing->temporary, PATH_MAX, "%.*s/.vial-%08x%s.tmp", directory_length, writing->target, number,
		             writing->is_new ? "-new" : "") >= PATH_MAX)
			return -ENAMETOOLONG;
		fd = open(writing->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST) {
			*writing->temporary = '\0';
			return -errno;
		}
	}
	*writing->temporary = '\0';
	return -EEXIST;
}

/* As the entered user. A descriptor or -errno. */
static int open_target(struct writing *writing, bool has_mode, bool is_append)
{
	int result = vial_fs_make_parents(writing->target);

	if (result == 0)
		result = examine_target(writing, has_mode);
	if (result < 0)
		return result;
	if (!is_append)
		return open_temporary(writing);
	result = open(writing->target, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, writing->mode);
	return result < 0 ? -errno : result;
}

static void refuse(struct vial_stream *stream, const char *path, int error)
{
	if (error == EISDIR)
		vial_stream_close_error(stream, VIAL_CONFLICT, "%s is a directory", path);
	else if (error == ENODEV || error == ENXIO)
		vial_stream_close_error(stream, VIAL_INVALID, "%s is not a regular file", path);
	else
		vial_stream_close_errno(stream, error, "cannot write %s", path);
}

void vial_op_fs_write(struct vial_stream *stream, json_t *request)
{
	struct writing *writing = calloc(1, sizeof(*writing));
	bool is_append, has_mode = json_is_string(json_object_get(request, "mode")) || json_is_integer(json_object_get(request, "mode"));
	int result;

	if (!writing) {
		vial_stream_close_errno(stream, ENOMEM, "cannot write");
		return;
	}
	writing->fd = -1;
	if (!vial_fs_request(stream, request, "path", writing->target, &writing->user) || !vial_fs_mode(stream, request, 0644, &writing->mode) ||
	    !vial_request_bool(stream, request, "append", &is_append)) {
		free(writing);
		return;
	}
	result = vial_user_enter(&writing->user);
	if (result == 0) {
		result = open_target(writing, has_mode, is_append);
		vial_user_leave();
	}
	if (result < 0) {
		refuse(stream, writing->target, -result);
		free(writing);
		return;
	}
	writing->fd = result;
	writing->notes = json_incref(json_object_get(request, "metadata"));
	vial_stream_set_handlers(stream, &handlers, writing);
}
