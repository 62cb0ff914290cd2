/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.list: the entries of a directory, and of those below it down to `depth`, in batches. A directory of any size is walked a batch at a time, when
 * the stream has room, so that a huge one stalls nobody. Links are not followed, so the walk ends.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fspath.h"
#include "ops.h"

#define BATCH_ENTRIES 128
#define MAX_DEPTH 32

struct level {
	DIR *directory;
	char path[PATH_MAX];
};

struct listing {
	struct vial_user user;
	int depth;
	bool has_notes;
	int level_count; /* the walk is at levels[level_count - 1] */
	struct level *levels[MAX_DEPTH];
};

static void pop(struct listing *listing)
{
	struct level *level = listing->levels[--listing->level_count];

	closedir(level->directory);
	free(level);
}

static void free_listing(struct listing *listing)
{
	while (listing->level_count > 0)
		pop(listing);
	free(listing);
}

static int push(struct listing *listing, const char *path)
{
	struct level *level = malloc(sizeof(*level));
	int fd, result;

	if (!level)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | (listing->level_count > 0 ? O_NOFOLLOW : 0));
	level->directory = fd < 0 ? NULL : fdopendir(fd);
	if (!level->directory) {
		result = -errno;
		if (fd >= 0)
			close(fd);
		free(level);
		return result;
	}
	snprintf(level->path, sizeof(level->path), "%s", path);
	listing->levels[listing->level_count++] = level;
	return 0;
}

/* As the entered user; a name that vanished meanwhile is left out. */
static void add_entry(struct listing *listing, const char *name, json_t *entries)
{
	struct level *level = listing->levels[listing->level_count - 1];
	char path[PATH_MAX];
	json_t *entry;

	if (snprintf(path, sizeof(path), "%s/%s", strcmp(level->path, "/") == 0 ? "" : level->path, name) >= PATH_MAX)
		return;
	entry = vial_fs_entry(path, listing->has_notes);
	if (!entry)
		return;
	json_array_append(entries, entry);
	if (listing->level_count < listing->depth && strcmp(json_string_value(json_object_get(entry, "type")), "directory") == 0)
		push(listing, path); /* one he may not read is simply not descended into */
	json_decref(entry);
}

static json_t *next_batch(struct listing *listing)
{
	json_t *entries = json_array();

	while (listing->level_count > 0 && json_array_size(entries) < BATCH_ENTRIES) {
		struct dirent *found = readdir(listing->levels[listing->level_count - 1]->directory);

		if (!found)
			pop(listing);
		else if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0)
			add_entry(listing, found->d_name, entries);
	}
	return entries;
}

static void send_batch(struct vial_stream *stream)
{
	struct listing *listing = vial_stream_data(stream);
	json_t *entries;

	if (vial_stream_room(stream) == 0) {
		vial_stream_wait_writable(stream);
		return;
	}
	if (vial_user_enter(&listing->user) < 0) {
		free_listing(listing);
		vial_stream_close_error(stream, VIAL_INTERNAL, "cannot act as the user");
		return;
	}
	entries = next_batch(listing);
	vial_user_leave();
	if (json_array_size(entries) > 0)
		vial_stream_send_event(stream, json_pack("{s:O}", "entries", entries));
	json_decref(entries);
	if (listing->level_count > 0) {
		vial_stream_wait_writable(stream);
		return;
	}
	free_listing(listing);
	vial_stream_close_ok(stream, NULL);
}

static void on_cancel(struct vial_stream *stream)
{
	free_listing(vial_stream_data(stream));
	vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled");
}

static const struct vial_stream_handlers handlers = { .on_writable = send_batch, .on_cancel = on_cancel };

void vial_op_fs_list(struct vial_stream *stream, json_t *request)
{
	struct listing *listing;
	struct vial_user user;
	char path[PATH_MAX];
	json_int_t depth;
	bool has_notes;
	int result;

	if (!vial_fs_request(stream, request, "path", path, &user) || !vial_request_integer(stream, request, "depth", 1, MAX_DEPTH, 1, &depth) ||
	    !vial_request_bool(stream, request, "metadata", &has_notes))
		return;
	listing = calloc(1, sizeof(*listing));
	if (!listing) {
		vial_stream_close_errno(stream, ENOMEM, "cannot list");
		return;
	}
	listing->user = user;
	listing->depth = (int)depth;
	listing->has_notes = has_notes;
	result = vial_user_enter(&user);
	if (result == 0) {
		result = push(listing, path);
		vial_user_leave();
	}
	if (result < 0) {
		free_listing(listing);
		if (result == -ENOTDIR)
			vial_stream_close_error(stream, VIAL_CONFLICT, "%s is not a directory", path);
		else
			vial_stream_close_errno(stream, result, "cannot list %s", path);
		return;
	}
	vial_stream_set_handlers(stream, &handlers, listing);
	vial_stream_wait_writable(stream);
}
