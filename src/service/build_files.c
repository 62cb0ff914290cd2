/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of what there is, in memory, is the main thread's and changes only when the disk has. Bytes of an upload gather until a worker takes them
 * as one batch, writes and hashes them; with HIGH_BYTES on their way whoever sends is asked to wait. So neither memory nor a client runs ahead of the
 * disk, and the main loop never waits for it.
 */
#include "service/build_files.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/builds_private.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/hash.h"
#include "util/id.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/tree.h"
#include "util/worker.h"

#define FOLDER "build-files"
#define SUFFIX ".tar"
#define TEMPORARY_PREFIX ".new-"
/* Of an upload, received and not yet on its way to the disk or there. */
#define HIGH_BYTES (1024 * 1024)
#define KEPT_MS (VIAL_BUILD_FILE_DAYS * G_GINT64_CONSTANT(86400000))
#define COLLECT_SECONDS 3600
/* How old the time of its last use may be on the disk. */
#define NOTE_MS 3600000

typedef struct {
	char *hash;
	gint64 size_bytes;
	gint64 used_ms;  /* when it was last wanted */
	gint64 noted_ms; /* what the disk says of that */
} File;

typedef struct {
	char *hash;
	gint64 used_ms;
} Name;

typedef struct {
	char *name;
	GHashTable *files; /* File, by hash */
	GHashTable *names; /* Name, by what a client calls it */
	gint64 bytes;      /* of all files */
	gint64 incoming;   /* of uploads under way */
} Project;

struct VialBuildFiles {
	VialApp *app;
	GHashTable *projects; /* Project, by name; those that have something */
	GPtrArray *uploads;   /* VialBuildUpload, borrowed */
	guint collect;
};

struct VialBuildUpload {
	VialBuildFiles *files;
	char *project, *name; /* name NULL: none */
	char *dir, *temporary;
	const VialBuildFileSink *sink; /* NULL: aborted */
	gpointer data;
	gint64 received_bytes; /* and promised ones: all that it has room for */
	gint64 reserved_bytes; /* of them, promised only */
	GByteArray *arrived;   /* not given to the worker yet */
	gboolean is_working, is_full, is_whole;
	GError *error; /* why it is given up */
	/* the worker's while it works */
	GByteArray *batch;
	gboolean is_last;
	GError *write_error;
	int fd;
	VialSha256 *sum;
	gint64 written_bytes;
	char *hash; /* set: the content is in its place */
};

/* Names and places */

gboolean vial_build_file_is_name(const char *name)
{
	return strlen(name) == 2 * VIAL_SHA256_BYTES && strspn(name, "0123456789abcdef") == 2 * VIAL_SHA256_BYTES;
}

static char *project_dir(VialApp *app, const char *project)
{
	return g_build_filename(app->config->data_dir, FOLDER, project, NULL);
}

char *vial_build_file_path(VialApp *app, const char *project, const char *hash)
{
	if (!vial_project_name_is_valid(project) || !vial_build_file_is_name(hash))
		return NULL;
	return g_strdup_printf("%s/" FOLDER "/%s/%s" SUFFIX, app->config->data_dir, project, hash);
}

/* The index */

static void file_free(gpointer data)
{
	File *file = data;

	g_free(file->hash);
	g_free(file);
}

static void name_free(gpointer data)
{
	Name *name = data;

	g_free(name->hash);
	g_free(name);
}

static void project_free(gpointer data)
{
	Project *project = data;

	g_hash_table_unref(project->files);
	g_hash_table_unref(project->names);
	g_free(project->name);
	g_free(project);
}

static Project *find_project(VialBuildFiles *files, const char *name)
{
	return g_hash_table_lookup(files->projects, name);
}

static Project *need_project(VialBuildFiles *files, const char *name)
{
	Project *project = find_project(files, name);

	if (project)
		return project;
	project = g_new0(Project, 1);
	project->name = g_strdup(name);
	project->files = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, file_free);
	project->names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, name_free);
	g_hash_table_insert(files->projects, project->name, project);
	return project;
}

static File *add_file(Project *project, const char *hash, gint64 size_bytes, gint64 used_ms)
{
	File *file = g_hash_table_lookup(project->files, hash);

	if (!file) {
		file = g_new0(File, 1);
		file->hash = g_strdup(hash);
		file->size_bytes = size_bytes;
		project->bytes += size_bytes;
		g_hash_table_insert(project->files, file->hash, file);
	}
	file->used_ms = file->noted_ms = used_ms;
	return file;
}

static void note_use(VialApp *app, const Project *project, File *file)
{
	g_autofree char *path = NULL;

	file->used_ms = vial_time_now_ms();
	if (file->used_ms - file->noted_ms < NOTE_MS)
		return;
	path = vial_build_file_path(app, project->name, file->hash);
	utimensat(AT_FDCWD, path, NULL, 0);
	file->noted_ms = file->used_ms;
}

const char *vial_build_files_find(VialApp *app, const char *project_name, const char *name)
{
	const Project *project = find_project(app->build_files, project_name);
	Name *found = project ? g_hash_table_lookup(project->names, name) : NULL;

	if (!found || !vial_build_files_have(app, project_name, found->hash))
		return NULL;
	found->used_ms = vial_time_now_ms();
	return found->hash;
}

gboolean vial_build_files_have(VialApp *app, const char *project_name, const char *hash)
{
	const Project *project = find_project(app->build_files, project_name);
	File *file = project ? g_hash_table_lookup(project->files, hash) : NULL;

	if (file)
		note_use(app, project, file);
	return file != NULL;
}

/* Room */

static void need(const char *hash, gpointer data)
{
	g_hash_table_add(data, g_strdup(hash));
}

/* Those that builds which are not over will read. */
static GHashTable *needed_files(VialApp *app, const char *project)
{
	GHashTable *needed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

	vial_builds_each_file(app, project, need, needed);
	return needed;
}

/* Its names first: one that leads nowhere is swept away, content without a name is not. */
static void remove_file(VialApp *app, Project *project, const File *file)
{
	g_autofree char *path = vial_build_file_path(app, project->name, file->hash), *dir = project_dir(app, project->name);
	GHashTableIter iter;
	gpointer name, value;

	g_hash_table_iter_init(&iter, project->names);
	while (g_hash_table_iter_next(&iter, &name, &value)) {
		g_autofree char *link = strcmp(((Name *)value)->hash, file->hash) == 0 ? g_build_filename(dir, name, NULL) : NULL;

		if (!link)
			continue;
		g_unlink(link);
		g_hash_table_iter_remove(&iter);
	}
	vial_tree_remove_later(path);
	project->bytes -= file->size_bytes;
	g_hash_table_remove(project->files, file->hash);
}

static File *oldest_unused(const Project *project, GHashTable *needed)
{
	GHashTableIter iter;
	File *oldest = NULL;
	gpointer value;

	g_hash_table_iter_init(&iter, project->files);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		File *file = value;

		if ((!oldest || file->used_ms < oldest->used_ms) && !g_hash_table_contains(needed, file->hash))
			oldest = file;
	}
	return oldest;
}

static const char *oldest_name(const Project *project)
{
	GHashTableIter iter;
	const Name *oldest = NULL;
	const char *found = NULL;
	gpointer name, value;

	g_hash_table_iter_init(&iter, project->names);
	while (g_hash_table_iter_next(&iter, &name, &value))
		if (!oldest || ((Name *)value)->used_ms < oldest->used_ms) {
			oldest = value;
			found = name;
		}
	return found;
}

/* Equal content may be sent under any number of names, so they are counted by themselves; the longest unused goes. */
static void add_name(VialApp *app, Project *project, const char *name, const char *hash, gint64 used_ms)
{
	Name *added = g_new(Name, 1);

	*added = (Name){ .hash = g_strdup(hash), .used_ms = used_ms };
	g_hash_table_replace(project->names, g_strdup(name), added);
	if (g_hash_table_size(project->names) > VIAL_BUILD_FILES_MAX) {
		const char *oldest = oldest_name(project);
		g_autofree char *dir = project_dir(app, project->name), *link = g_build_filename(dir, oldest, NULL);

		g_unlink(link);
		g_hash_table_remove(project->names, oldest);
	}
}

static gint64 most_bytes(const VialApp *app)
{
	return app->config->max_build_files_mb << 20;
}

static gboolean has_room(const VialApp *app, const Project *project, gint64 more_bytes, guint more)
{
	return project->bytes + project->incoming + more_bytes <= most_bytes(app) && g_hash_table_size(project->files) + more <= VIAL_BUILD_FILES_MAX;
}

/* FALSE: what is left is needed by builds, or comes just now. Nothing is removed for what would not fit even so. */
static gboolean make_room(VialApp *app, Project *project, gint64 more_bytes, guint more, GError **error)
{
	gboolean may_fit = project->incoming + more_bytes <= most_bytes(app);
	g_autoptr(GHashTable) needed = NULL;

	while (!has_room(app, project, more_bytes, more)) {
		File *oldest;

		if (!needed)
			needed = needed_files(app, project->name);
		oldest = may_fit ? oldest_unused(project, needed) : NULL;
		if (!oldest)
			return vial_fail_with(error, VIAL_ERROR_QUOTA,
			                      json_pack("{s:{s:s, s:s, s:I}}", "limit", "name", "max_build_files_mb", "scope", "project", "limit",
			                                (json_int_t)app->config->max_build_files_mb),
			                      "the project %s has no room for more files of builds: %" G_GINT64_FORMAT
			                      " MB, or %d archives, may be kept, and builds that are not over need what there is",
			                      project->name, app->config->max_build_files_mb, VIAL_BUILD_FILES_MAX);
		remove_file(app, project, oldest);
	}
	return TRUE;
}

/* The operator's setting, and what the disk has left. */
static gboolean check_size(VialApp *app, gint64 size_bytes, gint64 more_bytes, GError **error)
{
	if (size_bytes > app->config->max_build_file_mb << 20)
		return vial_fail(error, VIAL_ERROR_TOO_LARGE,
		                 "the archive is larger than %" G_GINT64_FORMAT " MB, the most that one COPY may take along (max_build_file_mb)",
		                 app->config->max_build_file_mb);
	if (vial_build_free_bytes(app) - VIAL_BUILD_RESERVE_BYTES < more_bytes)
		return vial_fail(error, VIAL_ERROR_NO_SPACE, "the disk of this Vial is nearly full: there is no room for the files of a build");
	return TRUE;
}

/* Writing, on a worker */

static gboolean fail_write(VialBuildUpload *upload, const char *step)
{
	gboolean is_full = errno == ENOSPC || errno == EDQUOT;

	return vial_fail(&upload->write_error, is_full ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "cannot %s the files of a build: %s", step,
	                 g_strerror(errno));
}

static gboolean open_temporary(VialBuildUpload *upload)
{
	if (upload->fd >= 0)
		return TRUE;
	if (g_mkdir_with_parents(upload->dir, 0700) == 0)
		upload->fd = open(upload->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	return upload->fd >= 0 || fail_write(upload, "make");
}

static gboolean write_batch(VialBuildUpload *upload)
{
	if (upload->batch->len == 0)
		return TRUE;
	if (vial_fault("build.file.write") || !vial_fd_write_all(upload->fd, upload->batch->data, upload->batch->len, NULL))
		return fail_write(upload, "write");
	vial_sha256_add(upload->sum, upload->batch->data, upload->batch->len);
	upload->written_bytes += upload->batch->len;
	return TRUE;
}

static gboolean sync_folder(const char *path)
{
	vial_autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && fsync(fd) == 0;
}

/* The name that the client has for it leads to it from now on. */
static gboolean put_name(const VialBuildUpload *upload, const char *hash)
{
	g_autofree char *target = g_strconcat(hash, SUFFIX, NULL), *link = g_strconcat(upload->temporary, "-name", NULL);
	g_autofree char *path = upload->name ? g_build_filename(upload->dir, upload->name, NULL) : NULL;

	if (!path || (symlink(target, link) == 0 && rename(link, path) == 0))
		return TRUE;
	unlink(link);
	return FALSE;
}

static gboolean put_in_place(VialBuildUpload *upload)
{
	g_autofree char *hash = vial_sha256_text(upload->sum), *parent = g_path_get_dirname(upload->dir);
	g_autofree char *path = g_strdup_printf("%s/%s" SUFFIX, upload->dir, hash);

	if (vial_fault("build.file.sync") || fsync(upload->fd) < 0)
		return fail_write(upload, "write");
	if (vial_fault("build.file.rename") || rename(upload->temporary, path) < 0 || !sync_folder(upload->dir))
		return fail_write(upload, "keep");
	upload->hash = g_strdup(hash);
	if (vial_fault("build.file.name") || !put_name(upload, hash) || !sync_folder(upload->dir) || !sync_folder(parent))
		return fail_write(upload, "name");
	return TRUE;
}

static void write_work(gpointer data)
{
	VialBuildUpload *upload = data;

	if (open_temporary(upload) && write_batch(upload) && upload->is_last)
		put_in_place(upload);
}

/* Going on, on the main thread */

static void upload_free(VialBuildUpload *upload)
{
	Project *project = find_project(upload->files, upload->project);

	if (project)
		project->incoming -= upload->received_bytes;
	g_ptr_array_remove_fast(upload->files->uploads, upload);
	vial_fd_clear(&upload->fd);
	vial_sha256_free(upload->sum);
	g_byte_array_unref(upload->arrived);
	g_byte_array_unref(upload->batch);
	g_clear_error(&upload->error);
	g_clear_error(&upload->write_error);
	g_free(upload->project);
	g_free(upload->name);
	g_free(upload->dir);
	g_free(upload->temporary);
	g_free(upload->hash);
	g_free(upload);
}

/*
 * On the disk it is, whatever has happened since: unless the project had the same already, and room was made of that while this took its place.
 */
static void enter(VialBuildUpload *upload)
{
	VialApp *app = upload->files->app;
	Project *project = need_project(upload->files, upload->project);
	g_autofree char *path = vial_build_file_path(app, upload->project, upload->hash);

	if (vial_fault("build.file.gone") || access(path, F_OK) < 0) {
		if (!upload->write_error)
			vial_fail(&upload->write_error, VIAL_ERROR_UNAVAILABLE,
			          "other files of builds took the room of these at that moment; send them again");
		return;
	}
	add_file(project, upload->hash, upload->written_bytes, vial_time_now_ms());
	if (upload->name && !upload->write_error)
		add_name(app, project, upload->name, upload->hash, vial_time_now_ms());
	project->incoming -= upload->received_bytes; /* they count as kept now */
	upload->received_bytes = 0;
	make_room(app, project, 0, 0, NULL);
}

static void leave(VialBuildUpload *upload)
{
	const GError *error;

	if (upload->hash)
		enter(upload);
	else
		vial_tree_remove_later(upload->temporary);
	error = upload->error ? upload->error : upload->write_error;
	if (upload->sink)
		upload->sink->end(error ? NULL : upload->hash, upload->written_bytes, error, upload->data);
	upload_free(upload);
}

static void on_written(gpointer data);

static void go_on(VialBuildUpload *upload)
{
	GByteArray *empty = upload->batch;

	if (upload->is_working)
		return;
	if (upload->error || upload->write_error || upload->hash)
		return leave(upload);
	if (upload->arrived->len == 0 && !upload->is_whole)
		return;
	upload->batch = upload->arrived;
	upload->arrived = empty;
	upload->is_last = upload->is_whole;
	upload->is_working = TRUE;
	vial_worker_run(write_work, on_written, upload);
}

static void on_written(gpointer data)
{
	VialBuildUpload *upload = data;
	gboolean has_waiter = upload->is_full && !upload->is_whole && !upload->error && !upload->write_error;

	upload->is_working = upload->is_full = FALSE;
	g_byte_array_set_size(upload->batch, 0);
	go_on(upload); /* which is the end of it only where nobody waits any more */
	if (has_waiter)
		upload->sink->writable(upload->data);
}

static void give_up(VialBuildUpload *upload, GError *error)
{
	if (upload->error)
		g_error_free(error);
	else
		upload->error = error;
	go_on(upload);
}

VialBuildUpload *vial_build_files_begin(VialApp *app, const char *project, const char *name, gint64 size_bytes, const VialBuildFileSink *sink,
                                        gpointer data, GError **error)
{
	VialBuildFiles *files = app->build_files;
	g_autofree char *id = NULL;
	VialBuildUpload *upload;

	if (!vial_project_name_is_valid(project) || (name && !vial_build_file_is_name(name)))
		return vial_fail(error, VIAL_ERROR_INVALID, "files of a build are called by 64 hexadecimal digits"), NULL;
	if (!check_size(app, size_bytes, MAX(size_bytes, 0), error) || !make_room(app, need_project(files, project), MAX(size_bytes, 0), 1, error))
		return NULL;
	id = vial_id_new();
	upload = g_new0(VialBuildUpload, 1);
	*upload = (VialBuildUpload){ .files = files, .project = g_strdup(project), .name = g_strdup(name), .sink = sink, .data = data, .fd = -1 };
	upload->dir = project_dir(app, project);
	upload->temporary = g_strdup_printf("%s/" TEMPORARY_PREFIX "%s", upload->dir, id);
	upload->arrived = g_byte_array_new();
	upload->batch = g_byte_array_new();
	upload->sum = vial_sha256_new();
	g_ptr_array_add(files->uploads, upload);
	return upload;
}

static gboolean take_room(VialBuildUpload *upload, gsize size, GError **error)
{
	VialApp *app = upload->files->app;
	Project *project = need_project(upload->files, upload->project);

	if (!check_size(app, upload->received_bytes + (gint64)size, (gint64)size, error) || !make_room(app, project, (gint64)size, 1, error))
		return FALSE;
	upload->received_bytes += (gint64)size;
	project->incoming += (gint64)size;
	return TRUE;
}

gboolean vial_build_upload_reserve(VialBuildUpload *upload, gsize size, GError **error)
{
	if (!take_room(upload, size, error))
		return FALSE;
	upload->reserved_bytes += (gint64)size;
	return TRUE;
}

gboolean vial_build_upload_write(VialBuildUpload *upload, const void *bytes, gsize size)
{
	gsize reserved = (gsize)MIN((gint64)size, upload->reserved_bytes);
	GError *error = NULL;

	if (upload->error) /* one of the worker's is told when that comes back: until then it is the worker's alone */
		return FALSE;
	if (!take_room(upload, size - reserved, &error)) {
		give_up(upload, error);
		return FALSE;
	}
	upload->reserved_bytes -= (gint64)reserved;
	g_byte_array_append(upload->arrived, bytes, (guint)size);
	go_on(upload);
	upload->is_full = upload->arrived->len >= HIGH_BYTES;
	return !upload->is_full;
}

void vial_build_upload_finish(VialBuildUpload *upload)
{
	upload->is_whole = TRUE;
	go_on(upload);
}

void vial_build_upload_abort(VialBuildUpload *upload)
{
	if (!upload)
		return;
	upload->sink = NULL;
	give_up(upload, g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "it was aborted"));
}

/* The end of some */

guint vial_build_files_delete_all(VialApp *app, const char *name)
{
	VialBuildFiles *files = app->build_files;
	Project *project = find_project(files, name);
	g_autofree char *dir = project_dir(app, name);
	guint left = 0;

	for (guint i = files->uploads->len; i > 0; i--) {
		VialBuildUpload *upload = files->uploads->pdata[i - 1];

		if (strcmp(upload->project, name) != 0)
			continue;
		left++;
		give_up(upload, g_error_new_literal(VIAL_ERROR, VIAL_ERROR_CONFLICT, "its project is deleted"));
	}
	if (left > 0 || !project)
		return left;
	vial_tree_remove_later(dir);
	g_hash_table_remove(files->projects, name);
	return 0;
}

static void collect_project(VialApp *app, Project *project)
{
	g_autoptr(GHashTable) needed = needed_files(app, project->name);
	g_autoptr(GPtrArray) old = g_ptr_array_new();
	gint64 now_ms = vial_time_now_ms();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, project->files);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		File *file = value;

		if (g_hash_table_contains(needed, file->hash))
			note_use(app, project, file);
		else if (now_ms - file->used_ms > KEPT_MS)
			g_ptr_array_add(old, file);
	}
	for (guint i = 0; i < old->len; i++)
		remove_file(app, project, old->pdata[i]);
}

static gboolean collect(gpointer data)
{
	VialBuildFiles *files = data;
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, files->projects);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		collect_project(files->app, value);
	return G_SOURCE_CONTINUE;
}

void vial_build_files_start(VialApp *app)
{
	collect(app->build_files);
	app->build_files->collect = g_timeout_add_seconds(COLLECT_SECONDS, collect, app->build_files);
}

/* At the start */

/* HASH.tar is "HASH". NULL: it is no content. */
static char *hash_of(const char *file_name)
{
	g_autofree char *hash = g_str_has_suffix(file_name, SUFFIX) ? g_strndup(file_name, strlen(file_name) - strlen(SUFFIX)) : NULL;

	return hash && vial_build_file_is_name(hash) ? g_steal_pointer(&hash) : NULL;
}

static void load_content(Project *project, int dir_fd, const char *name)
{
	g_autofree char *hash = hash_of(name);
	struct stat info;

	if (hash && fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode))
		add_file(project, hash, info.st_size, (gint64)info.st_mtim.tv_sec * 1000);
	else if (!vial_build_file_is_name(name))
		unlinkat(dir_fd, name, 0);
}

static void load_name(VialApp *app, Project *project, int dir_fd, const char *name)
{
	struct stat info = { 0 };
	char target[2 * VIAL_SHA256_BYTES + sizeof(SUFFIX)] = "";
	ssize_t size = readlinkat(dir_fd, name, target, sizeof(target) - 1);
	g_autofree char *hash = size > 0 ? hash_of(target) : NULL;

	if (hash && g_hash_table_contains(project->files, hash) && fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0)
		add_name(app, project, name, hash, (gint64)info.st_mtim.tv_sec * 1000);
	else
		unlinkat(dir_fd, name, 0);
}

static void load_project(VialBuildFiles *files, const char *path, const char *name)
{
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
	vial_autofd int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	Project *project = need_project(files, name);
	const char *entry;

	if (!dir || dir_fd < 0)
		return;
	while ((entry = g_dir_read_name(dir)))
		load_content(project, dir_fd, entry);
	g_dir_rewind(dir);
	while ((entry = g_dir_read_name(dir)))
		if (vial_build_file_is_name(entry))
			load_name(files->app, project, dir_fd, entry);
}

VialBuildFiles *vial_build_files_load(VialApp *app)
{
	VialBuildFiles *files = g_new0(VialBuildFiles, 1);
	g_autofree char *folder = project_dir(app, NULL);
	g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
	const char *name;

	files->app = app;
	files->projects = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, project_free);
	files->uploads = g_ptr_array_new();
	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(folder, name, NULL);

		if (vial_project_name_is_valid(name))
			load_project(files, path, name);
		else
			vial_tree_remove_later(path);
	}
	return files;
}

void vial_build_files_free(VialBuildFiles *files)
{
	if (!files)
		return;
	g_clear_handle_id(&files->collect, g_source_remove);
	while (files->uploads->len > 0)
		upload_free(files->uploads->pdata[0]);
	g_ptr_array_unref(files->uploads);
	g_hash_table_unref(files->projects);
	g_free(files);
}
