/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.read: a regular file, or a part of it, straight from the page cache into the wire's buffer. The file is opened with the user's rights; reading
 * needs none. Anything else than a regular file could block the agent and is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fspath.h"
#include "ops.h"
#include "wire/wire.h"

struct reading {
	int fd;
	json_int_t left_bytes; /* -1: to the end of the file */
	json_int_t sent_bytes;
};

static void free_reading(struct reading *reading)
{
	close(reading->fd);
	free(reading);
}

static void finish(struct vial_stream *stream, struct reading *reading)
{
	json_int_t sent_bytes = reading->sent_bytes;

	free_reading(reading);
	vial_stream_close_ok(stream, json_pack("{s:I}", "bytes", sent_bytes));
}

static void send_some(struct vial_stream *stream)
{
	struct reading *reading = vial_stream_data(stream);
	size_t size;
	uint8_t *space = vial_stream_reserve(stream, &size);
	ssize_t got;

	if (!space) {
		vial_stream_wait_writable(stream);
		return;
	}
	if (reading->left_bytes >= 0 && (json_int_t)size > reading->left_bytes)
		size = (size_t)reading->left_bytes;
	got = size > 0 ? read(reading->fd, space, size) : 0;
	vial_stream_commit(stream, VIAL_WIRE_MAIN, got > 0 ? (size_t)got : 0);
	if (got < 0) {
		int error = errno;

		free_reading(reading);
		vial_stream_close_errno(stream, error, "cannot read the file");
		return;
	}
	if (got == 0) {
		finish(stream, reading);
		return;
	}
	reading->sent_bytes += got;
	if (reading->left_bytes >= 0)
		reading->left_bytes -= got;
	vial_stream_wait_writable(stream);
}

static void on_cancel(struct vial_stream *stream)
{
	free_reading(vial_stream_data(stream));
	vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled");
}

static const struct vial_stream_handlers handlers = { .on_writable = send_some, .on_cancel = on_cancel };

/* -errno; -EISDIR and -ENODEV say what it is instead of a regular file. */
static int open_regular(const char *path)
{
	struct stat info;
	int fd;

	/* Before opening, because opening a device may do something; after it, because it may have been exchanged meanwhile. */
	if (stat(path, &info) < 0)
		return -errno;
	if (!S_ISREG(info.st_mode))
		return S_ISDIR(info.st_mode) ? -EISDIR : -ENODEV;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
		close(fd);
		return -ENODEV;
	}
	return fd;
}

static void refuse(struct vial_stream *stream, const char *path, int error)
{
	if (error == EISDIR)
		vial_stream_close_error(stream, VIAL_CONFLICT, "%s is a directory; list it instead", path);
	else if (error == ENODEV)
		vial_stream_close_error(stream, VIAL_INVALID, "%s is not a regular file", path);
	else
		vial_stream_close_errno(stream, error, "cannot open %s", path);
}

void vial_op_fs_read(struct vial_stream *stream, json_t *request)
{
	char path[PATH_MAX];
	struct vial_user user;
	struct reading *reading;
	json_int_t offset, length;
	json_t *entry = NULL;
	int fd;

	if (!vial_fs_request(stream, request, "path", path, &user) || !vial_request_integer(stream, request, "offset", 0, INT64_MAX, 0, &offset) ||
	    !vial_request_integer(stream, request, "length", 0, INT64_MAX, -1, &length))
		return;
	fd = vial_user_enter(&user);
	if (fd == 0) {
		fd = open_regular(path);
		entry = fd >= 0 ? vial_fs_entry(path, false) : NULL;
		vial_user_leave();
	}
	reading = fd >= 0 ? malloc(sizeof(*reading)) : NULL;
	if (fd >= 0 && (!reading || lseek(fd, offset, SEEK_SET) < 0)) {
		close(fd);
		fd = reading ? -EINVAL : -ENOMEM;
	}
	if (fd < 0) {
		free(reading);
		json_decref(entry);
		refuse(stream, path, -fd);
		return;
	}
	*reading = (struct reading){ .fd = fd, .left_bytes = length };
	vial_stream_set_handlers(stream, &handlers, reading);
	if (entry)
		vial_stream_send_event(stream, entry);
	vial_stream_wait_writable(stream);
}
