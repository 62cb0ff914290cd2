/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.watch: what changes in a directory (or to one file), and with `recursive` below it, by inotify; until CANCEL. The watches are set with the
 * user's rights. When the host does not read, events stay in the kernel's queue; if that overflows the host is told that some were lost.
 *
 * Directories made while we watch are watched too; what appeared in one before its watch was set is found by looking once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fspath.h"
#include "loop.h"
#include "ops.h"

#define MAX_DIRECTORIES 4096
#define MAX_DEPTH 64
#define EVENTS (IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF)

struct watched {
	int number; /* inotify's watch descriptor */
	char *path;
};

struct watching {
	struct vial_stream *stream;
	struct vial_user user;
	bool is_recursive;
	bool is_of_directory; /* a file is refused */
	int fd;
	struct vial_watch watch;
	struct watched *directories;
	unsigned count;
	/* A rename comes as two events; the first is kept until the second tells where to. */
	uint32_t move_cookie;
	bool is_move_of_dir;
	char *moved_from;
	/* The last "modify": a program that writes in small pieces is one event per read of the queue. */
	char last_modified[PATH_MAX];
	bool has_overflowed; /* since the last read of the queue */
};

static void free_watching(struct watching *watching)
{
	vial_watch_remove(&watching->watch);
	if (watching->fd >= 0)
		close(watching->fd);
	for (unsigned i = 0; i < watching->count; i++)
		free(watching->directories[i].path);
	free(watching->directories);
	free(watching->moved_from);
	free(watching);
}

static struct watched *find_watched(struct watching *watching, int number)
{
	for (unsigned i = 0; i < watching->count; i++) {
		if (watching->directories[i].number == number)
			return &watching->directories[i];
	}
	return NULL;
}

static void send_event(struct watching *watching, const char *what, const char *path, bool is_dir, const char *from)
{
	json_t *event = json_pack("{s:s,s:o,s:b}", "event", what, "path", vial_json_text(path), "is_dir", is_dir);

	if (event && from)
		json_object_set_new(event, "from", vial_json_text(from));
	vial_stream_send_event(watching->stream, event);
}

/* What appeared in a directory before it was watched may be a million files; the host hears of as many as it takes. */
static void tell_created(struct watching *watching, const char *path, bool is_dir)
{
	if (watching->has_overflowed)
		return;
	watching->has_overflowed = vial_stream_room(watching->stream) == 0;
	send_event(watching, watching->has_overflowed ? "overflow" : "create", path, is_dir, NULL);
}

/* As the entered user. `tells` sends what is found as created: it appeared before we could watch. */
static int add_tree(struct watching *watching, const char *path, int depth, bool tells)
{
	struct watched *grown;
	struct dirent *found;
	DIR *directory;
	int number;

	/* Linux asks for the right to read by itself, gVisor does not. */
	if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0)
		return -errno;
	number = inotify_add_watch(watching->fd, path, EVENTS | (depth > 0 ? IN_DONT_FOLLOW | IN_ONLYDIR : 0));
	if (number < 0)
		return -errno;
	if (!find_watched(watching, number)) {
		if (watching->count == MAX_DIRECTORIES)
			return -ENOSPC;
		grown = realloc(watching->directories, (watching->count + 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		watching->directories = grown;
		grown[watching->count++] = (struct watched){ .number = number, .path = strdup(path) };
	}
	if (!watching->is_recursive || depth == MAX_DEPTH || !(directory = opendir(path)))
		return 0;
	while ((found = readdir(directory))) {
		char below[PATH_MAX];

		if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0 ||
		    snprintf(below, sizeof(below), "%s/%s", path, found->d_name) >= PATH_MAX)
			continue;
		if (tells)
			tell_created(watching, below, found->d_type == DT_DIR);
		if (found->d_type == DT_DIR && add_tree(watching, below, depth + 1, tells) == -ENOSPC)
			break;
	}
	closedir(directory);
	return 0;
}

/* As the entered user: the tree itself, whose watches tell what comes. */
static int begin(struct watching *watching, const char *path)
{
	struct stat info;

	if (watching->is_of_directory && stat(path, &info) == 0 && !S_ISDIR(info.st_mode))
		return -ENOTDIR;
	return add_tree(watching, path, 0, false);
}

static void forget_move(struct watching *watching)
{
	if (!watching->moved_from)
		return;
	/* The other half never came: it went somewhere we do not watch. */
	send_event(watching, "delete", watching->moved_from, watching->is_move_of_dir, NULL);
	free(watching->moved_from);
	watching->moved_from = NULL;
}

static void on_moved_to(struct watching *watching, const struct inotify_event *event, const char *path, bool is_dir)
{
	if (watching->moved_from && watching->move_cookie == event->cookie) {
		send_event(watching, "move", path, is_dir, watching->moved_from);
		free(watching->moved_from);
		watching->moved_from = NULL;
	} else {
		send_event(watching, "create", path, is_dir, NULL);
	}
}

static void on_new_directory(struct watching *watching, const char *path)
{
	if (!watching->is_recursive || vial_user_enter(&watching->user) < 0)
		return;
	if (add_tree(watching, path, 1, true) == -ENOSPC)
		send_event(watching, "overflow", path, true, NULL);
	vial_user_leave();
}

static void handle(struct watching *watching, const struct inotify_event *event)
{
	struct watched *watched = find_watched(watching, event->wd);
	bool is_dir = event->mask & IN_ISDIR;
	char path[PATH_MAX];

	if (event->mask & IN_Q_OVERFLOW) {
		send_event(watching, "overflow", VIAL_WORKSPACE, true, NULL);
		return;
	}
	if (!watched || !watched->path)
		return;
	if (event->mask & IN_IGNORED) {
		/* It is gone; its place is another's. The first is the tree itself and stays. */
		if (watched != &watching->directories[0]) {
			free(watched->path);
			*watched = watching->directories[--watching->count];
		}
		return;
	}
	snprintf(path, sizeof(path), event->len ? "%s/%s" : "%s", watched->path, event->name);
	if (watching->moved_from && !((event->mask & IN_MOVED_TO) && event->cookie == watching->move_cookie))
		forget_move(watching);
	if (event->mask & IN_MOVED_FROM) {
		watching->moved_from = strdup(path);
		watching->move_cookie = event->cookie;
		watching->is_move_of_dir = is_dir;
	} else if (event->mask & IN_MOVED_TO) {
		on_moved_to(watching, event, path, is_dir);
	} else if (event->mask & IN_CREATE) {
		send_event(watching, "create", path, is_dir, NULL);
	} else if (event->mask & IN_DELETE) {
		send_event(watching, "delete", path, is_dir, NULL);
	} else if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
		if (watched == &watching->directories[0])
			send_event(watching, "delete", path, is_dir, NULL);
	} else if (event->mask & (IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB)) {
		if (strcmp(watching->last_modified, path) != 0)
			send_event(watching, "modify", path, is_dir, NULL);
		strcpy(watching->last_modified, path);
		return;
	}
	*watching->last_modified = '\0';
	if (is_dir && (event->mask & (IN_CREATE | IN_MOVED_TO)))
		on_new_directory(watching, path);
}

static void on_readable(struct vial_watch *watch, uint32_t events, void *data)
{
	struct watching *watching = data;
	char buffer[16 * 1024] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t size;

	if (vial_stream_room(watching->stream) == 0) {
		vial_watch_remove(&watching->watch);
		vial_stream_wait_writable(watching->stream);
		return;
	}
	size = read(watching->fd, buffer, sizeof(buffer));
	watching->has_overflowed = false;
	*watching->last_modified = '\0';
	for (char *at = buffer; size > 0 && at < buffer + size;) {
		struct inotify_event *event = (struct inotify_event *)(void *)at;

		handle(watching, event);
		at += sizeof(*event) + event->len;
	}
	forget_move(watching);
}

static void on_writable(struct vial_stream *stream)
{
	struct watching *watching = vial_stream_data(stream);

	if (!watching->watch.is_added)
		vial_watch_add(&watching->watch, watching->fd, EPOLLIN, on_readable, watching);
}

static void on_cancel(struct vial_stream *stream)
{
	free_watching(vial_stream_data(stream));
	vial_stream_close_ok(stream, NULL);
}

static void on_drop(struct vial_stream *stream)
{
	free_watching(vial_stream_data(stream));
}

static const struct vial_stream_handlers handlers = { .on_writable = on_writable, .on_cancel = on_cancel, .on_drop = on_drop };

void vial_op_fs_watch(struct vial_stream *stream, json_t *request)
{
	struct watching *watching = calloc(1, sizeof(*watching));
	char path[PATH_MAX];
	int result;

	if (!watching) {
		vial_stream_close_errno(stream, ENOMEM, "cannot watch");
		return;
	}
	watching->stream = stream;
	watching->fd = -1;
	if (!vial_fs_request(stream, request, "path", path, &watching->user) ||
	    !vial_request_bool(stream, request, "recursive", &watching->is_recursive) ||
	    !vial_request_bool(stream, request, "only_directory", &watching->is_of_directory)) {
		free(watching);
		return;
	}
	watching->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	result = watching->fd < 0 ? -errno : vial_user_enter(&watching->user);
	if (result == 0) {
		result = begin(watching, path);
		vial_user_leave();
	}
	if (result == 0)
		result = vial_watch_add(&watching->watch, watching->fd, EPOLLIN, on_readable, watching);
	if (result < 0) {
		free_watching(watching);
		if (result == -ENOTDIR)
			vial_stream_close_error(stream, VIAL_INVALID, "%s is not a directory", path);
		else
			vial_stream_close_errno(stream, result, "cannot watch %s", path);
		return;
	}
	vial_stream_set_handlers(stream, &handlers, watching);
	vial_stream_send_event(stream, json_pack("{s:s,s:o}", "event", "watching", "path", vial_json_text(path)));
}
