/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.remove: a file, or with `recursive` a tree of any depth. Walked by descriptors and without following links, so that nobody can redirect the walk
 * by swapping a directory for a link; a bounded number of names at a time, so that a large tree stalls nobody.
 *
 * Only the innermost levels are open. The way back to one that was closed is "..", and it is taken only if it leads to the very directory that was
 * left: somebody may have moved a part of the tree elsewhere meanwhile.
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
#define MAX_OPEN 32u

struct level {
	DIR *directory; /* NULL: closed for now */
	char *name;     /* in the level above */
	dev_t device;
	ino_t inode;
};

struct removing {
	struct vial_user user;
	char path[PATH_MAX];
	struct level *levels;
	size_t level_count, capacity;
};

static void close_level(struct level *level)
{
	if (level->directory)
		closedir(level->directory);
	level->directory = NULL;
}

static void free_removing(struct removing *removing)
{
	while (removing->level_count > 0) {
		struct level *level = &removing->levels[--removing->level_count];

		close_level(level);
		free(level->name);
	}
	free(removing->levels);
	free(removing);
}

static int add_level(struct removing *removing, const char *name, struct level **out_level)
{
	size_t capacity = removing->capacity ? removing->capacity * 2 : MAX_OPEN;
	struct level *levels;

	if (removing->level_count == removing->capacity) {
		levels = realloc(removing->levels, capacity * sizeof(*levels));
		if (!levels)
			return -ENOMEM;
		removing->levels = levels;
		removing->capacity = capacity;
	}
	*out_level = &removing->levels[removing->level_count];
	**out_level = (struct level){ .name = strdup(name) };
	if (!(*out_level)->name)
		return -ENOMEM;
	removing->level_count++;
	return 0;
}

/* Takes the descriptor over. */
static int open_level(struct level *level, int fd)
{
	level->directory = fdopendir(fd);
	if (level->directory)
		return 0;
	close(fd);
	return -ENOMEM;
}

/* Opens `name` in the level above, or the path itself at the top. */
static int descend(struct removing *removing, const char *name)
{
	size_t count = removing->level_count;
	int parent = count > 0 ? dirfd(removing->levels[count - 1].directory) : AT_FDCWD;
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct level *level = NULL;
	struct stat info;
	int result;

	if (fd < 0)
		return -errno;
	result = fstat(fd, &info) < 0 ? -errno : add_level(removing, name, &level);
	if (result < 0) {
		close(fd);
		return result;
	}
	level->device = info.st_dev;
	level->inode = info.st_ino;
	result = open_level(level, fd);
	if (result == 0 && count >= MAX_OPEN)
		close_level(&removing->levels[count - MAX_OPEN]);
	return result;
}

/* Opens the level above the innermost one again. */
static int go_back(const struct removing *removing)
{
	struct level *above = &removing->levels[removing->level_count - 2];
	int fd = openat(dirfd(above[1].directory), "..", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	struct stat info;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) < 0 || info.st_dev != above->device || info.st_ino != above->inode) {
		close(fd);
		return -ESTALE;
	}
	return open_level(above, fd);
}

/* The innermost directory is empty: leave and remove it. */
static int ascend(struct removing *removing)
{
	struct level *level = &removing->levels[removing->level_count - 1];
	int result = 0;

	if (removing->level_count > 1 && !level[-1].directory)
		result = go_back(removing);
	if (result < 0)
		return result;
	close_level(level);
	if (--removing->level_count == 0)
		result = rmdir(removing->path) < 0 ? -errno : 0;
	else if (unlinkat(dirfd(level[-1].directory), level->name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		result = -errno;
	else /* Names were taken away under the reader above; begin again, for file systems whose offsets do not survive that. */
		rewinddir(level[-1].directory);
	free(level->name);
	return result;
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
	else if (result == -ENOTEMPTY && !removing->levels)
		vial_stream_close_error(stream, VIAL_CONFLICT, "%s is a directory that is not empty; remove it with \"recursive\"", removing->path);
	else if (result == -ENOTEMPTY || result == -ESTALE)
		vial_stream_close_error(stream, VIAL_CONFLICT, "%s was changed while it was being removed; a part of it is gone", removing->path);
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
