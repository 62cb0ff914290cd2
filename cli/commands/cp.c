/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which side is which, where a source lands, and the walk over directories; transfer.c moves the single file. A source that
 * is a directory becomes DST/name when DST is a directory, else DST itself; "DIR/." means its contents, as with cp -r.
 * Links and special files are not copied and are counted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/transfer.h"

enum { DEPTH_MAX = 100 }; /* of directories in directories: a sandbox may list what it likes */

static char *user;
static gboolean is_raw;

static const VialOption options[] = {
	{ 'u', "user", VIAL_OPTION_STRING, &user, "NAME", "with the rights of this user of the sandbox", NULL },
	{ 0, "raw", VIAL_OPTION_FLAG, &is_raw, NULL, "with \"-\": let escape sequences through to our terminal", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_cp_syntax = {
	.arguments = "SOURCE... DESTINATION",
	.description = "One side is in a sandbox and is written ID:PATH; relative paths there start at /workspace. Directories are\n"
		       "copied with all they contain. \"-\" is standard input or output. (A local name with a colon: ./na:me.)\n"
		       "\n"
		       "  vial cp data.csv 4kq:\n"
		       "  vial cp 4kq:/workspace/out ./results\n"
		       "  vial cp 4kq:report.pdf - | lpr",
	.options = options,
	.min_arguments = 2,
	.max_arguments = -1,
	.completes = "@file",
};

typedef struct {
	VialTransfer transfer;
	guint files, directories, skipped;
} Copy;

/* The id in "ID:PATH", or NULL for a local path. Free it. */
static char *split_remote(const char *argument, const char **out_path)
{
	gsize size = strspn(argument, "abcdefghijklmnopqrstuvwxyz0123456789");
	if (size == 0 || argument[size] != ':')
		return NULL;
	*out_path = argument[size + 1] ? argument + size + 1 : ".";
	return g_strndup(argument, size);
}

static gboolean fail(GError **error, const char *format, const char *name)
{
	g_autofree char *clean = vial_sanitize_line(name);
	g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, format, clean);
	return FALSE;
}

static gboolean fail_errno(GError **error, const char *name, const char *doing)
{
	int saved = errno;
	g_autofree char *clean = vial_sanitize_line(name);
	g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s cannot be %s: %s", clean, doing, g_strerror(saved));
	return FALSE;
}

static void skip(Copy *copy, const char *path, const char *what)
{
	g_autofree char *clean = vial_sanitize_line(path);
	vial_progress_hide(copy->transfer.progress);
	vial_output_note(copy->transfer.cli, "%s is %s and was not copied", clean, what);
	copy->skipped++;
}

/* The last component, or "" for a path whose contents are meant: "/", ".", "dir/.", "..". */
static char *final_name(const char *path)
{
	g_autofree char *trimmed = g_strdup(path);
	for (gsize size = strlen(trimmed); size > 1 && trimmed[size - 1] == '/'; size--)
		trimmed[size - 1] = '\0';
	const char *slash = strrchr(trimmed, '/');
	const char *name = slash ? slash + 1 : trimmed;
	return g_strdup(vial_transfer_is_safe_name(name) ? name : "");
}

static char *join(const char *directory, const char *name)
{
	if (!*name)
		return g_strdup(directory);
	return g_strconcat(directory, g_str_has_suffix(directory, "/") ? "" : "/", name, NULL);
}

/* --- into the sandbox ----------------------------------------------------------------------------------------------- */

static gboolean make_remote_directory(Copy *copy, const char *remote, GError **error)
{
	g_autoptr(GError) problem = NULL;
	g_autofree char *path = vial_api_path("/sandboxes/%s/fs/mkdir", copy->transfer.sandbox_id);
	json_t *body = json_pack("{s:s}", "path", remote);
	if (!body)
		return fail(error, "%s: the name is not valid UTF-8", remote);
	if (user)
		json_object_set_new(body, "user", json_string(user));
	if (!vial_api_call(copy->transfer.cli, "POST", path, body, NULL, &problem) &&
	    !g_error_matches(problem, VIAL_HTTP_ERROR, 409)) { /* there already */
		g_propagate_error(error, g_steal_pointer(&problem));
		return FALSE;
	}
	copy->directories++;
	return TRUE;
}

static gboolean upload_file(Copy *copy, int dir_fd, const char *name, const char *local, const char *remote, GError **error)
{
	struct stat info;
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us up */
	if (fd < 0)
		return fail_errno(error, local, "read");
	gboolean is_ok = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
	if (is_ok)
		is_ok = vial_transfer_upload(&copy->transfer, fd, info.st_size, (int)(info.st_mode & 0777), local, remote, error);
	else
		fail(error, "%s is not a regular file", local);
	close(fd);
	copy->files += is_ok;
	return is_ok;
}

static gboolean upload_directory(Copy *copy, int fd, const char *local, const char *remote, int depth, GError **error);

static gboolean upload_entry(Copy *copy, int dir_fd, const char *name, const char *local, const char *remote, int depth, GError **error)
{
	struct stat info;
	if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
		return fail_errno(error, local, "read");
	if (S_ISREG(info.st_mode))
		return upload_file(copy, dir_fd, name, local, remote, error);
	if (S_ISDIR(info.st_mode)) {
		int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return fail_errno(error, local, "read");
		return upload_directory(copy, fd, local, remote, depth + 1, error);
	}
	skip(copy, local, S_ISLNK(info.st_mode) ? "a link" : "a special file");
	return TRUE;
}

/* Takes `fd`. */
static gboolean upload_directory(Copy *copy, int fd, const char *local, const char *remote, int depth, GError **error)
{
	DIR *directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return fail_errno(error, local, "read");
	}
	gboolean is_ok = depth <= DEPTH_MAX || fail(error, "%s: the directories are nested too deeply", local);
	is_ok = is_ok && make_remote_directory(copy, remote, error);
	for (struct dirent *entry; is_ok && (entry = readdir(directory));) {
		if (!vial_transfer_is_safe_name(entry->d_name))
			continue;
		g_autofree char *from = join(local, entry->d_name), *to = join(remote, entry->d_name);
		is_ok = upload_entry(copy, dirfd(directory), entry->d_name, from, to, depth, error);
	}
	closedir(directory);
	return is_ok;
}

/* Is there a directory at this remote path? FALSE also when there is nothing. */
static gboolean is_remote_directory(Copy *copy, const char *remote, gboolean *out_is_directory, GError **error)
{
	g_autoptr(GError) problem = NULL;
	g_autoptr(json_t) entry = vial_transfer_stat(&copy->transfer, remote, &problem);
	*out_is_directory = json_is_true(json_object_get(entry, "is_dir"));
	if (entry || g_error_matches(problem, VIAL_HTTP_ERROR, 404)) {
		/* 404 means no such file; or no such sandbox, which the transfer itself will say. */
		return TRUE;
	}
	g_propagate_error(error, g_steal_pointer(&problem));
	return FALSE;
}

static gboolean upload(Copy *copy, const char *source, const char *destination, gboolean is_into, GError **error)
{
	g_autofree char *name = final_name(source);
	g_autofree char *target = is_into ? join(destination, name) : g_strdup(destination);
	if (strcmp(source, "-") == 0) {
		copy->files++;
		return vial_transfer_upload(&copy->transfer, STDIN_FILENO, -1, -1, "standard input", destination, error);
	}
	struct stat info;
	if (stat(source, &info) != 0) /* a link named by the user is followed */
		return fail_errno(error, source, "read");
	if (!S_ISDIR(info.st_mode))
		return upload_file(copy, AT_FDCWD, source, source, target, error);
	int fd = g_open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return fail_errno(error, source, "read");
	return upload_directory(copy, fd, source, target, 0, error);
}

static gboolean upload_all(Copy *copy, char **sources, int count, const char *destination, GError **error)
{
	gboolean is_into = FALSE;
	if (!is_remote_directory(copy, destination, &is_into, error))
		return FALSE;
	if (!is_into && (count > 1 || g_str_has_suffix(destination, "/"))) {
		if (!make_remote_directory(copy, destination, error))
			return FALSE;
		is_into = TRUE;
	}
	for (int i = 0; i < count; i++)
		if (!upload(copy, sources[i], destination, is_into, error))
			return FALSE;
	return TRUE;
}

/* --- out of the sandbox --------------------------------------------------------------------------------------------- */

static int entry_mode(const json_t *entry)
{
	const json_t *mode = json_object_get(entry, "mode");
	if (json_is_string(mode)) {
		const char *text = json_string_value(mode);
		return g_ascii_isdigit(*text) ? (int)g_ascii_strtoll(text, NULL, 8) : -1;
	}
	return json_is_integer(mode) ? (int)json_integer_value(mode) : -1;
}

static gboolean download_file(Copy *copy, const json_t *entry, const char *remote, int dir_fd, const char *name, GError **error)
{
	gint64 size = vial_api_integer(entry, "size", -1);
	if (!vial_transfer_download_file(&copy->transfer, remote, size, dir_fd, name, entry_mode(entry), error))
		return FALSE;
	copy->files++;
	return TRUE;
}

static gboolean is_plain(const json_t *entry)
{
	const char *type = vial_api_string(entry, "type");
	return !type || strcmp(type, "file") == 0 || strcmp(type, "regular") == 0;
}

static gboolean is_directory(const json_t *entry)
{
	const char *type = vial_api_string(entry, "type");
	gboolean is_link = type && (strcmp(type, "symlink") == 0 || strcmp(type, "link") == 0);
	return !is_link && json_is_true(json_object_get(entry, "is_dir"));
}

static gboolean download_directory(Copy *copy, const char *remote, int dir_fd, int depth, GError **error)
{
	g_autofree char *base = vial_api_path("/sandboxes/%s/fs/dir?path=%s", copy->transfer.sandbox_id, remote);
	g_autofree char *as = user ? g_uri_escape_string(user, NULL, FALSE) : NULL;
	g_autofree char *path = g_strconcat(base, as ? "&user=" : NULL, as, NULL);
	g_autoptr(json_t) answer = NULL;
	if (depth > DEPTH_MAX)
		return fail(error, "%s: the directories are nested too deeply", remote);
	if (!vial_api_call(copy->transfer.cli, "GET", path, NULL, &answer, error))
		return FALSE;
	copy->directories++;
	const json_t *entries = vial_api_list(answer, "entries");
	for (gsize i = 0; i < json_array_size(entries); i++) {
		const json_t *entry = json_array_get(entries, i);
		const char *name = vial_api_string(entry, "name");
		g_autofree char *child = join(remote, name ? name : "");
		if (!vial_transfer_is_safe_name(name)) {
			skip(copy, child, "strangely named");
		} else if (is_directory(entry)) {
			int fd = vial_transfer_open_below(dir_fd, name, error);
			gboolean is_ok = fd >= 0 && download_directory(copy, child, fd, depth + 1, error);
			if (fd >= 0)
				close(fd);
			if (!is_ok)
				return FALSE;
		} else if (!is_plain(entry)) {
			skip(copy, child, strstr(vial_api_string(entry, "type"), "link") ? "a link" : "a special file");
		} else if (!download_file(copy, entry, child, dir_fd, name, error)) {
			return FALSE;
		}
	}
	return TRUE;
}

/* Opens the directory that will hold `name`; -1 with *error. */
static int open_parent(const char *path, char **out_name, GError **error)
{
	g_autofree char *parent = g_path_get_dirname(path);
	int fd = g_open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		fail_errno(error, parent, "opened");
	else
		*out_name = g_path_get_basename(path);
	return fd;
}

static gboolean download_tree(Copy *copy, const char *remote, const char *target, GError **error)
{
	if (g_mkdir(target, 0777) != 0 && errno != EEXIST)
		return fail_errno(error, target, "made");
	int fd = g_open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return fail_errno(error, target, "opened");
	gboolean is_ok = download_directory(copy, remote, fd, 0, error);
	close(fd);
	return is_ok;
}

static gboolean show(Copy *copy, const char *remote, gint64 size_bytes, GError **error)
{
	VialSink sink;
	vial_sink_init(&sink, copy->transfer.cli, STDOUT_FILENO, is_raw);
	gboolean is_ok = vial_transfer_show(&copy->transfer, remote, size_bytes, &sink, error);
	vial_sink_end(&sink);
	return is_ok;
}

static gboolean download(Copy *copy, const char *remote, const char *destination, gboolean is_into, GError **error)
{
	g_autoptr(json_t) entry = vial_transfer_stat(&copy->transfer, remote, error);
	if (!entry)
		return FALSE;
	gint64 size = vial_api_integer(entry, "size", -1);
	gboolean is_dir = json_is_true(json_object_get(entry, "is_dir"));
	if (strcmp(destination, "-") == 0) {
		if (is_dir)
			return fail(error, "%s is a directory: try `vial exec ID -- tar c DIR`", remote);
		copy->files++;
		return show(copy, remote, size, error);
	}
	g_autofree char *name = final_name(remote);
	g_autofree char *target = is_into ? join(destination, name) : g_strdup(destination);
	if (is_dir)
		return download_tree(copy, remote, target, error);
	g_autofree char *final = NULL;
	int fd = open_parent(target, &final, error);
	if (fd < 0)
		return FALSE;
	gboolean is_ok = download_file(copy, entry, remote, fd, final, error);
	close(fd);
	return is_ok;
}

static gboolean download_all(Copy *copy, char **sources, int count, const char *destination, GError **error)
{
	gboolean is_into = g_file_test(destination, G_FILE_TEST_IS_DIR);
	if (!is_into && (count > 1 || g_str_has_suffix(destination, "/"))) {
		if (g_mkdir_with_parents(destination, 0777) != 0)
			return fail_errno(error, destination, "made");
		is_into = TRUE;
	}
	for (int i = 0; i < count; i++) {
		const char *path = NULL;
		g_autofree char *id = split_remote(sources[i], &path);
		if (!download(copy, path, destination, is_into, error))
			return FALSE;
	}
	return TRUE;
}

/* --- the command ---------------------------------------------------------------------------------------------------- */

static void report(VialCli *cli, const Copy *copy)
{
	gint64 total = vial_progress_total(copy->transfer.progress);
	double seconds = vial_progress_seconds(copy->transfer.progress);
	vial_progress_hide(copy->transfer.progress);
	if (cli->is_json) {
		g_autoptr(json_t) answer = json_pack("{s:i, s:i, s:i, s:I, s:f}", "files", copy->files, "directories", copy->directories, "skipped",
		                                     copy->skipped, "bytes", (json_int_t)total, "seconds", seconds);
		vial_output_json(answer);
	} else if (isatty(STDERR_FILENO)) {
		g_autofree char *size = vial_output_bytes(total);
		vial_output_note(cli, "%u file%s, %s in %.1f s", copy->files, copy->files == 1 ? "" : "s", size, seconds);
	}
}

/* All remote arguments must be on one side and of one sandbox. */
static char *find_sandbox(VialCli *cli, char **sources, int count, const char *destination, gboolean *out_is_upload, int *out_status)
{
	const char *path;
	g_autofree char *target = split_remote(destination, &path);
	g_autofree char *from = NULL;
	for (int i = 0; i < count; i++) {
		g_autofree char *id = split_remote(sources[i], &path);
		if ((id != NULL) == (target != NULL)) {
			*out_status = vial_output_usage(cli, target ? "both sides are in a sandbox: copy to this machine in between"
			                                            : "one side must be in a sandbox: write it ID:PATH");
			return NULL;
		}
		if (from && g_strcmp0(from, id) != 0) {
			*out_status = vial_output_usage(cli, "the sources are in different sandboxes: copy them one by one");
			return NULL;
		}
		g_free(from);
		from = g_steal_pointer(&id);
	}
	*out_is_upload = target != NULL;
	return target ? g_steal_pointer(&target) : g_steal_pointer(&from);
}

int vial_cp_run(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK, count = argc - 1;
	GError *error = NULL;
	gboolean is_upload = FALSE;
	const char *destination = argv[count];
	g_autofree char *given = find_sandbox(cli, argv, count, destination, &is_upload, &status);
	if (!given)
		return status;
	g_autofree char *id = vial_api_sandbox_id(cli, given, &error);
	if (!id)
		return vial_output_fail(cli, error);
	g_autoptr(VialProgress) progress = vial_progress_new(cli);
	Copy copy = { .transfer = { .cli = cli, .progress = progress, .sandbox_id = id, .user = user } };
	gboolean is_ok;
	if (is_upload) {
		const char *remote = NULL;
		g_autofree char *ignored = split_remote(destination, &remote);
		is_ok = upload_all(&copy, argv, count, remote, &error);
	} else {
		is_ok = download_all(&copy, argv, count, destination, &error);
	}
	vial_progress_hide(progress);
	if (!is_ok)
		return vial_output_fail(cli, error);
	report(cli, &copy);
	return VIAL_EXIT_OK;
}
