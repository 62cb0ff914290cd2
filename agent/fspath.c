/* SPDX-License-Identifier: Apache-2.0 */
/* See fspath.h. */
#include "fspath.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fsnotes.h"
#include "ops.h"

/* Drops empty and "." components in place. ".." stays: behind a link it means something that only the kernel knows. */
static void tidy(char *path)
{
	const char *from = path;
	char *to = path;

	while (*from) {
		size_t length;

		while (*from == '/')
			from++;
		length = strcspn(from, "/");
		if (length > 0 && !(length == 1 && *from == '.')) {
			*to++ = '/';
			memmove(to, from, length);
			to += length;
		}
		from += length;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

static char workdir[PATH_MAX] = VIAL_WORKSPACE;

const char *vial_workdir(void)
{
	return workdir;
}

void vial_workdir_set(json_t *hello)
{
	const char *wanted = json_string_value(json_object_get(hello, "workdir"));

	if (wanted && *wanted == '/' && strlen(wanted) < sizeof(workdir))
		strcpy(workdir, wanted);
}

int vial_path_absolute(const char *path, char out_path[PATH_MAX])
{
	int length;

	if (!path || !*path)
		return -EINVAL;
	length = *path == '/' ? snprintf(out_path, PATH_MAX, "%s", path) : snprintf(out_path, PATH_MAX, VIAL_WORKSPACE "/%s", path);
	if (length >= PATH_MAX)
		return -ENAMETOOLONG;
	tidy(out_path);
	return 0;
}

bool vial_fs_path(struct vial_stream *stream, json_t *request, const char *field, char out_path[PATH_MAX])
{
	const char *path;
	int result;

	if (!vial_request_string(stream, request, field, true, &path))
		return false;
	result = vial_path_absolute(path, out_path);
	if (result < 0) {
		vial_stream_close_error(stream, VIAL_INVALID, "\"%s\" is %s", field, result == -EINVAL ? "empty" : "too long for a path");
		return false;
	}
	if (strncmp(out_path, "/proc", 5) == 0 && (out_path[5] == '/' || out_path[5] == '\0')) {
		vial_stream_close_error(stream, VIAL_DENIED, "/proc is out of reach of file operations; read it with a command");
		return false;
	}
	return true;
}

bool vial_fs_request(struct vial_stream *stream, json_t *request, const char *field, char out_path[PATH_MAX], struct vial_user *out_user)
{
	int result = vial_user_from_json(request, out_user);

	if (result == -ENOENT) {
		const char *name = json_string_value(json_object_get(request, "user"));

		vial_stream_close_error(stream, VIAL_INVALID, "there is no user \"%.64s\" in this sandbox", name ? name : "user");
		return false;
	}
	if (result < 0) {
		vial_stream_close_errno(stream, result, "the field \"user\"");
		return false;
	}
	return vial_fs_path(stream, request, field, out_path);
}

bool vial_fs_mode(struct vial_stream *stream, json_t *request, mode_t fallback, mode_t *out_mode)
{
	json_t *value = json_object_get(request, "mode");
	long mode = -1;
	char *end = NULL;

	if (!value || json_is_null(value)) {
		*out_mode = fallback;
		return true;
	}
	if (json_is_integer(value))
		mode = (long)json_integer_value(value);
	else if (json_is_string(value) && *json_string_value(value))
		mode = strtol(json_string_value(value), &end, 8);
	if (mode < 0 || mode > 07777 || (end && *end)) {
		vial_stream_close_error(stream, VIAL_INVALID, "the field \"mode\" must be octal digits such as \"0644\"");
		return false;
	}
	*out_mode = (mode_t)mode;
	return true;
}

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
	case S_IFBLK:
		return "device";
	default:
		return "other";
	}
}

static void add_target(json_t *entry, const char *path)
{
	char target[PATH_MAX];
	ssize_t length = readlink(path, target, sizeof(target) - 1);

	if (length < 0)
		return;
	target[length] = '\0';
	json_object_set_new(entry, "target", vial_json_text(target));
}

static void add_notes(json_t *entry, const char *path)
{
	json_t *notes = vial_fs_notes(path);

	if (notes)
		json_object_set_new(entry, "metadata", notes);
}

json_t *vial_fs_entry(const char *path, bool has_notes)
{
	struct stat link, info;
	const char *slash = strrchr(path, '/');
	char mode[8], user[64], group[64];
	json_t *entry;

	if (lstat(path, &link) < 0)
		return NULL;
	/* A link is described by what it leads to, and its type says that it is one; one that leads nowhere, by itself. */
	if (!S_ISLNK(link.st_mode) || stat(path, &info) < 0)
		info = link;
	snprintf(mode, sizeof(mode), "%04o", (unsigned)(info.st_mode & 07777));
	vial_user_name(info.st_uid, user, sizeof(user));
	vial_group_name(info.st_gid, group, sizeof(group));
	entry = json_pack("{s:o,s:o,s:b,s:s,s:I,s:s,s:f,s:o,s:o}", "name", vial_json_text(slash && slash[1] ? slash + 1 : path), "path",
	                  vial_json_text(path), "is_dir", S_ISDIR(info.st_mode), "type", type_name(link.st_mode), "size", (json_int_t)info.st_size,
	                  "mode", mode, "mtime", (double)info.st_mtim.tv_sec + (double)info.st_mtim.tv_nsec / 1e9, "user", vial_json_text(user),
	                  "group", vial_json_text(group));
	if (entry && S_ISLNK(link.st_mode))
		add_target(entry, path);
	if (entry && has_notes)
		add_notes(entry, path);
	if (!entry)
		errno = ENOMEM;
	return entry;
}

int vial_fs_make_parents(const char *path)
{
	char partial[PATH_MAX];

	snprintf(partial, sizeof(partial), "%s", path);
	for (char *slash = strchr(partial + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(partial, 0755) < 0 && errno != EEXIST) {
			int error = errno;
			struct stat info;

			/* A directory that exists but lies below one we may not write to answers EACCES or EROFS first. */
			if (stat(partial, &info) < 0 || !S_ISDIR(info.st_mode))
				return -error;
		}
		*slash = '/';
	}
	return 0;
}
