/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two halves, one after the other: spooling, which hands what has arrived to a worker as one batch (with HIGH_BYTES waiting whoever sends is asked to
 * wait), and packing, in which a worker reads the spool, makes the next piece of the archive of it, and the main thread gives that to the upload. A
 * worker has the spool, the batch and the place in the list to itself while it works.
 */
#include "service/build_context.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "util/error.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/tar.h"
#include "util/worker.h"

#define FOLDER "builds"
#define HIGH_BYTES (1024 * 1024)
/* Of the archive, at once. */
#define PIECE_BYTES (256 * 1024)
/* Of Linux: a longer one could not be unpacked. */
#define NAME_MAX_BYTES 255
#define PATH_MAX_BYTES 4095

#define PLAIN_MODE 0644
#define PROGRAM_MODE 0755
#define FOLDER_MODE 0755

typedef struct {
	char *name;
	gint64 begin, size_bytes; /* in the spool */
	guint8 magic[4];          /* its first bytes */
} ContextFile;

struct VialBuildContext {
	VialApp *app;
	const VialBuildFileSink *sink; /* NULL: aborted */
	gpointer data;
	GPtrArray *list; /* ContextFile */
	gsize names_bytes;
	gint64 received_bytes;
	GByteArray *arrived; /* not given to the worker yet */
	gboolean is_working, is_full, is_whole;
	GError *error;           /* why it is given up */
	VialBuildUpload *upload; /* the archive; has the room for what is spooled */
	/* the worker's while it works */
	GByteArray *batch;
	int fd;
	GError *work_error;
	guint packed;        /* of the list */
	gint64 packed_bytes; /* of the content of the one that is under way */
	gboolean is_packed;
};

static void file_free(gpointer data)
{
	ContextFile *file = data;

	g_free(file->name);
	g_free(file);
}

static void go_on(VialBuildContext *context);
static void on_spooled(gpointer data);

/* Names */

/* Without the parts that mean nothing. NULL: it leads elsewhere, or nowhere. Free it. */
static char *tidy_name(const char *name)
{
	g_auto(GStrv) parts = g_strsplit(name, "/", -1);
	g_autoptr(GString) path = g_string_new(NULL);

	if (*name == '/' || g_str_has_suffix(name, "/"))
		return NULL;
	for (gsize i = 0; parts[i]; i++) {
		if (strcmp(parts[i], "..") == 0 || strlen(parts[i]) > NAME_MAX_BYTES)
			return NULL;
		if (*parts[i] && strcmp(parts[i], ".") != 0)
			g_string_append_printf(path, "%s%s", path->len > 0 ? "/" : "", parts[i]);
	}
	return path->len > 0 && path->len <= PATH_MAX_BYTES ? g_strdup(path->str) : NULL;
}

/* A folder's files stand together, right behind where a file of its name would be: "a", "a/b", "a b". */
static int compare_names(const char *a, const char *b)
{
	for (; *a && *a == *b; a++)
		b++;
	return (*a == '/' ? 1 : (guchar)*a + (*a ? 1 : 0)) - (*b == '/' ? 1 : (guchar)*b + (*b ? 1 : 0));
}

static gint compare_files(gconstpointer a, gconstpointer b)
{
	return compare_names((*(ContextFile *const *)a)->name, (*(ContextFile *const *)b)->name);
}

/* Of a sorted list. */
static gboolean check_names(const GPtrArray *list, GError **error)
{
	for (guint i = 1; i < list->len; i++) {
		const char *before = ((ContextFile *)list->pdata[i - 1])->name, *name = ((ContextFile *)list->pdata[i])->name;
		gsize length = strlen(before);

		if (strcmp(before, name) == 0)
			return vial_fail(error, VIAL_ERROR_INVALID, "the file \"%s\" of the context came twice", name);
		if (strncmp(before, name, length) == 0 && name[length] == '/')
			return vial_fail(error, VIAL_ERROR_INVALID, "\"%s\" of the context is a file, and \"%s\" is to be in it", before, name);
	}
	return TRUE;
}

gboolean vial_build_context_add(VialBuildContext *context, const char *name, GError **error)
{
	g_autofree char *tidy = tidy_name(name);
	ContextFile *file;

	if (!tidy)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "a file of the context is called by its path in there: without \"..\", and of at most %d bytes", PATH_MAX_BYTES);
	if (context->list->len == VIAL_BUILD_CONTEXT_FILES_MAX)
		return vial_fail(error, VIAL_ERROR_TOO_LARGE, "the context has more than %d files", VIAL_BUILD_CONTEXT_FILES_MAX);
	if (context->names_bytes + strlen(tidy) > VIAL_BUILD_CONTEXT_NAMES_MAX_BYTES)
		return vial_fail(error, VIAL_ERROR_TOO_LARGE, "the names of the files of the context have more than %d bytes together",
		                 VIAL_BUILD_CONTEXT_NAMES_MAX_BYTES);
	context->names_bytes += strlen(tidy);
	file = g_new0(ContextFile, 1);
	file->name = g_steal_pointer(&tidy);
	file->begin = context->received_bytes;
	g_ptr_array_add(context->list, file);
	return TRUE;
}

/* Spooling */

static gboolean fail_work(VialBuildContext *context, const char *step)
{
	gboolean is_full = errno == ENOSPC || errno == EDQUOT;

	return vial_fail(&context->work_error, is_full ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "cannot %s the files of the context: %s", step,
	                 g_strerror(errno));
}

static gboolean open_spool(VialBuildContext *context)
{
	g_autofree char *folder = g_build_filename(context->app->config->data_dir, FOLDER, NULL);

	if (context->fd >= 0)
		return TRUE;
	if (g_mkdir_with_parents(folder, 0700) == 0)
		context->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return context->fd >= 0 || fail_work(context, "keep");
}

static void spool_work(gpointer data)
{
	VialBuildContext *context = data;

	if (!open_spool(context))
		return;
	if (vial_fault("build.context.write") || !vial_fd_write_all(context->fd, context->batch->data, context->batch->len, NULL))
		fail_work(context, "write");
	g_byte_array_set_size(context->batch, 0);
}

/* Packing */

static gboolean is_program(const ContextFile *file)
{
	return (file->size_bytes >= 2 && memcmp(file->magic, "#!", 2) == 0) || (file->size_bytes >= 4 && memcmp(file->magic, "\177ELF", 4) == 0);
}

/* Those that the file before was not in. */
static void pack_folders(VialBuildContext *context, const char *name)
{
	const char *before = context->packed > 0 ? ((ContextFile *)context->list->pdata[context->packed - 1])->name : "";
	gsize same = 0;

	for (gsize i = 0; name[i] && name[i] == before[i]; i++)
		if (name[i] == '/')
			same = i + 1;
	for (const char *slash = name + same; (slash = strchr(slash, '/')); slash++) {
		g_autofree char *folder = g_strndup(name, (gsize)(slash - name));

		vial_tar_add_folder(context->batch, folder, FOLDER_MODE);
	}
}

/* The next piece of the content of the one under way. */
static gboolean pack_content(VialBuildContext *context, const ContextFile *file)
{
	gsize wanted = (gsize)MIN(file->size_bytes - context->packed_bytes, PIECE_BYTES), before = context->batch->len;
	ssize_t got;

	if (vial_fault("build.context.read"))
		return fail_work(context, "read");
	g_byte_array_set_size(context->batch, (guint)(before + wanted));
	do
		got = pread(context->fd, context->batch->data + before, wanted, file->begin + context->packed_bytes);
	while (got < 0 && errno == EINTR);
	if (got == 0)
		errno = EIO; /* it is shorter than what was written */
	g_byte_array_set_size(context->batch, (guint)(before + (gsize)MAX(got, 0)));
	context->packed_bytes += MAX(got, 0);
	return got > 0 || fail_work(context, "read");
}

static gboolean pack_file(VialBuildContext *context, const ContextFile *file)
{
	if (context->packed_bytes == 0) {
		pack_folders(context, file->name);
		vial_tar_add_file(context->batch, file->name, is_program(file) ? PROGRAM_MODE : PLAIN_MODE, (guint64)file->size_bytes);
	}
	if (context->packed_bytes < file->size_bytes && !pack_content(context, file))
		return FALSE;
	if (context->packed_bytes < file->size_bytes)
		return TRUE;
	vial_tar_add_padding(context->batch, (guint64)file->size_bytes);
	context->packed_bytes = 0;
	context->packed++;
	return TRUE;
}

static void pack_work(gpointer data)
{
	VialBuildContext *context = data;

	g_byte_array_set_size(context->batch, 0);
	while (context->batch->len < PIECE_BYTES && context->packed < context->list->len)
		if (!pack_file(context, context->list->pdata[context->packed]))
			return;
	if (context->packed < context->list->len)
		return;
	if (!context->is_packed)
		vial_tar_add_end(context->batch);
	context->is_packed = TRUE;
}

/* Going on, on the main thread */

static void context_free(VialBuildContext *context)
{
	vial_build_upload_abort(context->upload);
	vial_fd_clear(&context->fd);
	g_ptr_array_unref(context->list);
	g_byte_array_unref(context->arrived);
	g_byte_array_unref(context->batch);
	g_clear_error(&context->error);
	g_free(context);
}

static void leave(VialBuildContext *context, const char *hash, gint64 size_bytes)
{
	if (context->sink)
		context->sink->end(hash, size_bytes, context->error, context->data);
	context_free(context);
}

static void on_archive_writable(gpointer data)
{
	go_on(data);
}

static void on_archive_end(const char *hash, gint64 size_bytes, const GError *error, gpointer data)
{
	VialBuildContext *context = data;

	context->upload = NULL;
	if (hash)
		return leave(context, hash, size_bytes);
	if (!context->error)
		context->error = g_error_copy(error);
	go_on(context);
}

static const VialBuildFileSink archive_sink = { .writable = on_archive_writable, .end = on_archive_end };

static void take_back(VialBuildContext *context)
{
	context->is_working = FALSE;
	if (context->error)
		g_clear_error(&context->work_error);
	else
		context->error = g_steal_pointer(&context->work_error);
}

static void on_packed(gpointer data)
{
	VialBuildContext *context = data;

	take_back(context);
	if (context->error || vial_build_upload_write(context->upload, context->batch->data, context->batch->len))
		go_on(context);
	/* else on_archive_writable() does, or it is gone */
}

static void go_on_packing(VialBuildContext *context)
{
	if (context->is_packed)
		return vial_build_upload_finish(context->upload);
	context->is_working = TRUE;
	vial_worker_run(pack_work, on_packed, context);
}

static void spool(VialBuildContext *context)
{
	GByteArray *empty = context->batch;

	context->batch = context->arrived;
	context->arrived = empty;
	context->is_working = TRUE;
	vial_worker_run(spool_work, on_spooled, context);
}

static void on_spooled(gpointer data)
{
	VialBuildContext *context = data;
	gboolean was_full;

	take_back(context);
	was_full = context->is_full && !context->error;
	context->is_full = FALSE;
	go_on(context);
	if (was_full) /* whoever waits has not finished, so it is not gone */
		context->sink->writable(context->data);
}

/* Once whoever is at it has come back. */
static void go_on(VialBuildContext *context)
{
	if (context->is_working)
		return;
	if (context->error)
		leave(context, NULL, 0);
	else if (context->arrived->len > 0)
		spool(context);
	else if (context->is_whole)
		go_on_packing(context);
}

VialBuildContext *vial_build_context_new(VialApp *app, const char *project, const VialBuildFileSink *sink, gpointer data, GError **error)
{
	VialBuildContext *context = g_new0(VialBuildContext, 1);

	*context = (VialBuildContext){ .app = app, .sink = sink, .data = data, .fd = -1 };
	context->list = g_ptr_array_new_with_free_func(file_free);
	context->arrived = g_byte_array_new();
	context->batch = g_byte_array_new();
	context->upload = vial_build_files_begin(app, project, NULL, -1, &archive_sink, context, error);
	if (context->upload)
		return context;
	context_free(context);
	return NULL;
}

/* Of the file that came last. */
static void count(VialBuildContext *context, const guint8 *bytes, gsize size)
{
	ContextFile *file = context->list->pdata[context->list->len - 1];

	for (gsize i = 0; i < size && file->size_bytes + (gint64)i < (gint64)sizeof(file->magic); i++)
		file->magic[file->size_bytes + (gint64)i] = bytes[i];
	file->size_bytes += (gint64)size;
	context->received_bytes += (gint64)size;
}

gboolean vial_build_context_write(VialBuildContext *context, const void *bytes, gsize size)
{
	if (context->error)
		return FALSE; /* it ends when the worker comes back */
	if (!vial_build_upload_reserve(context->upload, size, &context->error)) {
		go_on(context);
		return FALSE;
	}
	count(context, bytes, size);
	g_byte_array_append(context->arrived, bytes, (guint)size);
	go_on(context);
	context->is_full = context->arrived->len >= HIGH_BYTES;
	return !context->is_full;
}

void vial_build_context_finish(VialBuildContext *context)
{
	context->is_whole = TRUE;
	g_ptr_array_sort(context->list, compare_files);
	if (!context->error)
		check_names(context->list, &context->error);
	go_on(context);
}

void vial_build_context_abort(VialBuildContext *context)
{
	if (!context)
		return;
	context->sink = NULL;
	if (!context->error)
		vial_fail(&context->error, VIAL_ERROR_UNAVAILABLE, "it was aborted");
	go_on(context);
}
