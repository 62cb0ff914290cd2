/* SPDX-License-Identifier: Apache-2.0 */
/* The file operations that are over at once: fs.stat, fs.mkdir, fs.move. fs.remove, which may be long, is fsremove.c. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fspath.h"
#include "ops.h"

void vial_op_fs_stat(struct vial_stream *stream, json_t *request)
{
	char path[PATH_MAX];
	struct vial_user user;
	json_t *entry = NULL;
	bool has_notes;
	int result;

	if (!vial_fs_request(stream, request, "path", path, &user) || !vial_request_bool(stream, request, "metadata", &has_notes))
		return;
	result = vial_user_enter(&user);
	if (result == 0) {
		entry = vial_fs_entry(path, has_notes);
		result = entry ? 0 : -errno;
		vial_user_leave();
	}
	if (result == -ENOTDIR) /* something above it is a file: there is no such path */
		result = -ENOENT;
	if (result < 0)
		vial_stream_close_errno(stream, result, "%s", path);
	else
		vial_stream_close_ok(stream, json_pack("{s:o}", "entry", entry));
}

/* An existing directory is no error, as with mkdir -p. */
static int make_directory(const char *path, mode_t mode)
{
	struct stat info;
	int result = vial_fs_make_parents(path);

	if (result < 0 || mkdir(path, mode) == 0)
		return result;
	result = -errno;
	if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
		return 0;
	return result;
}

void vial_op_fs_mkdir(struct vial_stream *stream, json_t *request)
{
	char path[PATH_MAX];
	struct vial_user user;
	mode_t mode;
	int result;

	if (!vial_fs_request(stream, request, "path", path, &user) || !vial_fs_mode(stream, request, 0755, &mode))
		return;
	result = vial_user_enter(&user);
	if (result == 0) {
		result = make_directory(path, mode);
		vial_user_leave();
	}
	if (result < 0)
		vial_stream_close_errno(stream, result, "cannot make %s", path);
	else
		vial_stream_close_ok(stream, json_pack("{s:o}", "path", vial_json_text(path)));
}

void vial_op_fs_move(struct vial_stream *stream, json_t *request)
{
	char from[PATH_MAX], to[PATH_MAX];
	struct vial_user user;
	int result;

	if (!vial_fs_request(stream, request, "path", from, &user) || !vial_fs_path(stream, request, "to", to))
		return;
	result = vial_user_enter(&user);
	if (result == 0) {
		result = vial_fs_make_parents(to);
		if (result == 0 && rename(from, to) < 0)
			result = -errno;
		vial_user_leave();
	}
	if (result == -EXDEV)
		vial_stream_close_error(stream, VIAL_INVALID, "%s and %s are on different file systems; copy and remove instead", from, to);
	else if (result < 0)
		vial_stream_close_errno(stream, result, "cannot move %s", from);
	else
		vial_stream_close_ok(stream, json_pack("{s:o}", "path", vial_json_text(to)));
}
