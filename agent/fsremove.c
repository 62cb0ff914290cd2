/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.remove: a file, or with `recursive` a tree. Walked by descriptors and without following links, so that nobody can redirect the walk by swapping a
 * directory for a link; a bounded number of names at a time, so that a large tree stalls nobody.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fspath.h"
#include "ops.h"

#define STEP_NAMES 256
#define MAX_DEPTH 256

struct removing {
	struct vial_user user;
	char path[PATH_MAX];
	int level_count;
	struct {
		DIR *directory;
		char name[NAME_MAX + 1]; /* in the level above */
	} levels[MAX_DEPTH];
};

static void free_removing(struct removing *removing)
{
	while (removing->level_count > 0)
		closedir(removing->levels[--removing->level_count].directory);
	free(removing);
}

/* Opens `name` in the level above, or the path itself at the top. */
static int descend(struct removing *removing, const char *name)
{
	int level = removing->level_count;
	int parent = level > 0 ? dirfd(removing->levels[level - 1].directory) : AT_FDCWD;
	int fd;

	if (level == MAX_DEPTH)
		return -ELOOP;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	removing->levels[level].directory = fdopendir(fd);
	if (!removing->levels[level].directory) {
		close(fd);
		return -ENOMEM;
	}
	strncpy(removing->levels[level].name, name, NAME_MAX);
	removing->level_count++;
	return 0;
}

/* The directory at the bottom is empty: leave and remove it. */
static int ascend(struct removing *removing)
{
	int level = --removing->level_count;

	closedir(removing->levels[level].directory);
	if (level == 0)
		return rmdir(removing->path) < 0 ? -errno : 0;
	if (unlinkat(dirfd(removing->levels[level - 1].directory), removing->levels[level].name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	/* Names were taken away under the reader above; begin again, for file systems whose offsets do not survive that. */
	rewinddir(removing->levels[level - 1].directory);
	return 0;
}

static int remove_name(struct removing *removing, struct dirent *found)
{
	int fd = dirfd(removing->levels[removing->level_count - 1].directory);

	if (found->d_type != DT_DIR && (unlinkat(fd, found->d_name, 0) == 0 || errno == ENOENT))
		return 0;
	if (found->d_type != DT_DIR && errno != EISDIR && errno != EPERM)
		return -errno;
	return descend(removing, found->d_name);
}

/* 0 when all is gone, 1 when there is more to do, -errno. */
static int remove_some(struct removing *removing)
{
	for (int i = 0; i < STEP_NAMES && removing->level_count > 0; i++) {
		struct dirent *found = readdir(removing->levels[removing->level_count - 1].directory);
		int result = 0;

		if (!found)
			result = ascend(removing);
		else if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0)
			result = remove_name(removing, found);
		if (result < 0)
			return result;
	}
	return removing->level_count > 0;
}

static void end(struct vial_stream *stream, struct removing *removing, int result)
{
	if (result == 0)
		vial_stream_close_ok(stream, NULL);
	else if (result == -ENOTEMPTY)
		vial_stream_close_error(stream, VIAL_CONFLICT, "%s is a directory that is not empty; remove it with \"recursive\"",
					removing->path);
	else
		vial_stream_close_errno(stream, result, "cannot remove %s", removing->path);
	free_removing(removing);
}

static void go_on(struct vial_stream *stream)
{
	struct removing *removing = vial_stream_data(stream);
	int result = vial_user_enter(&removing->user);

	if (result == 0) {
		result = remove_some(removing);
		vial_user_leave();
	}
	if (result > 0)
		vial_stream_wait_writable(stream);
	else
		end(stream, removing, result);
}

static void on_cancel(struct vial_stream *stream)
{
	free_removing(vial_stream_data(stream));
	vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled; what was removed by then is gone");
}

static const struct vial_stream_handlers handlers = { .on_writable = go_on, .on_cancel = on_cancel };

/* As the entered user: 0 when it is gone, 1 when a tree is to be walked, -errno. */
static int begin(struct removing *removing, bool is_recursive)
{
	struct stat info;
	int result;

	if (lstat(removing->path, &info) < 0)
		return -errno;
	if (!S_ISDIR(info.st_mode))
		return unlink(removing->path) < 0 ? -errno : 0;
	if (rmdir(removing->path) == 0)
		return 0;
	if (!is_recursive || (errno != ENOTEMPTY && errno != EEXIST))
		return errno == EEXIST ? -ENOTEMPTY : -errno;
	result = descend(removing, removing->path);
	return result < 0 ? result : 1;
}

void vial_op_fs_remove(struct vial_stream *stream, json_t *request)
{
	struct removing *removing = calloc(1, sizeof(*removing));
	bool is_recursive;
	int result;

	if (!removing) {
		vial_stream_close_errno(stream, ENOMEM, "cannot remove");
		return;
	}
	if (!vial_fs_request(stream, request, "path", removing->path, &removing->user) ||
	    !vial_request_bool(stream, request, "recursive", &is_recursive)) {
		free(removing);
		return;
	}
	result = vial_user_enter(&removing->user);
	if (result == 0) {
		result = begin(removing, is_recursive);
		vial_user_leave();
	}
	if (result <= 0) {
		end(stream, removing, result);
		return;
	}
	vial_stream_set_handlers(stream, &handlers, removing);
	vial_stream_wait_writable(stream);
}
