/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes a layer from a guest. Bytes come on the main thread, at most as many as the stream's credit; a worker writes and hashes them, one batch at a
 * time, and what it has written is granted anew. So neither memory nor the guest runs ahead of the disk. The file has a temporary name until it is
 * whole and on the disk; at start what is left of that is removed.
 */
#include "service/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fault.h"
#include "util/fd.h"
#include "util/hash.h"
#include "util/id.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"

#define SUFFIX ".erofs"
#define TEMPORARY_PREFIX "taking-"
#define BLOCK 4096u
/* With nothing from the guest for so long: it may have to look at a million files before the first byte. */
#define STALL_MS 300000

typedef struct {
	VialApp *app;
	VialStream *stream; /* NULL once it has closed */
	char *dir, *temporary;
	gint64 max_bytes;
	gint64 received_bytes;
	guint stall;
	GQueue arrived;  /* GBytes, not given to the worker yet */
	gsize in_flight; /* bytes of the batch */
	gboolean is_working;
	gboolean is_whole; /* the guest says that this was all */
	GError *error;     /* why it is given up */
	VialLayerDone done;
	gpointer data;
	/* the worker's while it works */
	GQueue batch;
	gboolean is_last;
	GError *write_error;
	int fd;
	VialSha256 *sum;
	gint64 written_bytes;
	char *hash; /* set: it has its name */
} Taking;

/* Names and places */

gboolean vial_layers_supported(VialApp *app, GError **error)
{
	const char *refusal = app->engine->ops->refuses_layers ? app->engine->ops->refuses_layers(app->engine) : NULL;

	return !refusal || vial_fail(error, VIAL_ERROR_UNAVAILABLE, "%s", refusal);
}

gboolean vial_layer_is_name(const char *name)
{
	return strlen(name) == 2 * VIAL_SHA256_BYTES && strspn(name, "0123456789abcdef") == 2 * VIAL_SHA256_BYTES;
}

char *vial_layers_dir(VialApp *app)
{
	char *dir = g_build_filename(app->config->data_dir, "layers", NULL);

	g_mkdir_with_parents(dir, 0700);
	return dir;
}

char *vial_layer_path(VialApp *app, const char *name)
{
	return g_strdup_printf("%s/layers/%s" SUFFIX, app->config->data_dir, name);
}

gboolean vial_layers_resolve(VialApp *app, const char *const *names, char ***out_paths, GError **error)
{
	g_autoptr(GStrvBuilder) paths = g_strv_builder_new();
	guint count = 0;

	if (!names || !*names)
		return TRUE;
	if (!vial_layers_supported(app, error))
		return FALSE;
	for (; *names; names++, count++) {
		g_autofree char *path = vial_layer_is_name(*names) ? vial_layer_path(app, *names) : NULL;

		if (!path || count >= VIAL_LAYERS_MAX)
			return vial_fail(error, VIAL_ERROR_INTERNAL, "its record names a layer that can be none");
		if (access(path, R_OK) < 0)
			return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "the layer %s is gone", *names);
		g_strv_builder_add(paths, path);
	}
	*out_paths = g_strv_builder_end(paths);
	return TRUE;
}

void vial_layers_sweep(VialApp *app)
{
	g_autofree char *folder = vial_layers_dir(app);
	g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(folder, name, NULL);

		if (g_str_has_prefix(name, TEMPORARY_PREFIX))
			g_unlink(path);
	}
}

/* Writing, on a worker */

static gboolean fail_write(Taking *taking, const char *step)
{
	return vial_fail(&taking->write_error, errno == ENOSPC || errno == EDQUOT ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL,
	                 errno == ENOSPC ? "there is not enough room on the host's disk for the layer (%s: %s)" : "cannot %s the layer: %s", step,
	                 g_strerror(errno));
}

static gboolean is_zero(const guint8 *bytes, gsize size)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* The end of what lies at `at` that is alike: whole blocks of zeros, or anything else. Blocks are the file's, wherever the piece begins. */
static gsize run_end(const guint8 *bytes, gsize at, gsize size, gint64 offset, gboolean *out_is_hole)
{
	gsize end = at;

	for (gsize next; end < size; end = next) {
		gsize in_block = BLOCK - (gsize)((offset + (gint64)end) % BLOCK);
		gboolean is_hole = in_block == BLOCK && size - end >= BLOCK && is_zero(bytes + end, BLOCK);

		next = MIN(end + in_block, size);
		if (end == at)
			*out_is_hole = is_hole;
		else if (is_hole != *out_is_hole)
			break;
	}
	return end;
}

/* Blocks of zeros become holes: what was sparse in the guest is so on the host, and nobody has to know why. */
static gboolean write_piece(Taking *taking, const guint8 *bytes, gsize size)
{
	gint64 offset = taking->written_bytes;
	gboolean is_hole = FALSE;

	if (vial_fault("layer.write"))
		return fail_write(taking, "write");
	for (gsize at = 0, end; at < size; at = end) {
		end = run_end(bytes, at, size, offset, &is_hole);
		for (gsize from = at; !is_hole && from < end;) {
			ssize_t put = pwrite(taking->fd, bytes + from, end - from, (off_t)(offset + (gint64)from));

			if (put < 0 && errno != EINTR)
				return fail_write(taking, "write");
			from += put > 0 ? (gsize)put : 0;
		}
	}
	vial_sha256_add(taking->sum, bytes, size);
	taking->written_bytes += (gint64)size;
	return TRUE;
}

static gboolean open_temporary(Taking *taking)
{
	if (taking->fd >= 0)
		return TRUE;
	g_mkdir_with_parents(taking->dir, 0700);
	taking->fd = open(taking->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	return taking->fd >= 0 || fail_write(taking, "make");
}

static gboolean sync_folder(const char *path)
{
	vial_autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && fsync(fd) == 0;
}

static gboolean put_in_place(Taking *taking)
{
	g_autofree char *hash = vial_sha256_text(taking->sum);
	g_autofree char *path = g_strdup_printf("%s/%s" SUFFIX, taking->dir, hash);

	if (ftruncate(taking->fd, taking->written_bytes) < 0 || fsync(taking->fd) < 0)
		return fail_write(taking, "write");
	if (vial_fault("layer.rename") || rename(taking->temporary, path) < 0 || !sync_folder(taking->dir))
		return fail_write(taking, "keep");
	taking->hash = g_steal_pointer(&hash);
	return TRUE;
}

static void write_work(gpointer data)
{
	Taking *taking = data;
	gboolean is_fine = !taking->write_error && open_temporary(taking);
	GBytes *bytes;

	while ((bytes = g_queue_pop_head(&taking->batch))) {
		gsize size;
		const guint8 *at = g_bytes_get_data(bytes, &size);

		is_fine = is_fine && write_piece(taking, at, size);
		g_bytes_unref(bytes);
	}
	if (is_fine && taking->is_last)
		put_in_place(taking);
}

/* Going on, on the main thread */

static void taking_free(Taking *taking)
{
	g_clear_handle_id(&taking->stall, g_source_remove);
	vial_stream_free(taking->stream);
	g_queue_clear_full(&taking->arrived, (GDestroyNotify)g_bytes_unref);
	vial_fd_clear(&taking->fd);
	vial_sha256_free(taking->sum);
	g_clear_error(&taking->error);
	g_clear_error(&taking->write_error);
	g_free(taking->dir);
	g_free(taking->temporary);
	g_free(taking->hash);
	g_free(taking);
}

static void leave(Taking *taking)
{
	const GError *error = taking->error ? taking->error : taking->write_error;

	if (error && !taking->hash)
		g_unlink(taking->temporary);
	taking->done(error ? NULL : taking->hash, taking->written_bytes, error, taking->data);
	taking_free(taking);
}

static void on_written(gpointer data);

static void go_on(Taking *taking)
{
	if (taking->is_working)
		return;
	if (taking->error || taking->write_error || taking->hash)
		return leave(taking);
	if (g_queue_is_empty(&taking->arrived) && !taking->is_whole)
		return;
	taking->batch = taking->arrived;
	taking->is_last = taking->is_whole;
	g_queue_init(&taking->arrived);
	taking->in_flight = 0;
	for (GList *link = taking->batch.head; link; link = link->next)
		taking->in_flight += g_bytes_get_size(link->data);
	taking->is_working = TRUE;
	vial_worker_run(write_work, on_written, taking);
}

static void on_written(gpointer data)
{
	Taking *taking = data;

	taking->is_working = FALSE;
	if (taking->stream && !taking->write_error)
		vial_stream_consumed(taking->stream, taking->in_flight);
	go_on(taking);
}

static void give_up(Taking *taking, const GError *error)
{
	g_clear_handle_id(&taking->stall, g_source_remove);
	g_clear_pointer(&taking->stream, vial_stream_free);
	if (!taking->error)
		taking->error = g_error_copy(error);
	go_on(taking);
}

static gboolean on_stall(gpointer data)
{
	Taking *taking = data;
	g_autoptr(GError) error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_TIMEOUT, "the sandbox stopped sending its layer");

	taking->stall = 0;
	give_up(taking, error);
	return G_SOURCE_REMOVE;
}

static void watch_stall(Taking *taking)
{
	g_clear_handle_id(&taking->stall, g_source_remove);
	taking->stall = vial_time_add_deadline(STALL_MS, on_stall, taking);
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	Taking *taking = data;
	g_autoptr(GError) error = NULL;

	taking->received_bytes += (gint64)g_bytes_get_size(bytes);
	if (taking->received_bytes > taking->max_bytes) {
		vial_fail(&error, VIAL_ERROR_TOO_LARGE, "the layer is larger than %" G_GINT64_FORMAT " MB, the most it may be",
		          taking->max_bytes >> 20);
		return give_up(taking, error);
	}
	watch_stall(taking);
	g_queue_push_tail(&taking->arrived, g_bytes_ref(bytes));
	go_on(taking);
}

static void on_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	Taking *taking = data;
	g_autoptr(GError) lie = NULL;

	if (error)
		return give_up(taking, error);
	if (json_integer_value(json_object_get(result, "bytes")) != taking->received_bytes || taking->received_bytes == 0) {
		vial_fail(&lie, VIAL_ERROR_GATEWAY, "the sandbox did not send the whole of its layer");
		return give_up(taking, lie);
	}
	g_clear_handle_id(&taking->stall, g_source_remove);
	g_clear_pointer(&taking->stream, vial_stream_free);
	taking->is_whole = TRUE;
	go_on(taking);
}

void vial_layer_take(VialApp *app, VialInstance *instance, const char *dir, gint64 max_bytes, VialLayerDone done, gpointer data)
{
	static const VialStreamEvents events = { .data = on_data, .closed = on_closed };
	Taking *taking = g_new0(Taking, 1);
	g_autofree char *id = vial_id_new();

	taking->app = app;
	taking->dir = g_strdup(dir);
	taking->temporary = g_strdup_printf("%s/" TEMPORARY_PREFIX "%s", dir, id);
	taking->max_bytes = max_bytes > 0 ? MIN(max_bytes, VIAL_LAYER_MAX_BYTES) : VIAL_LAYER_MAX_BYTES;
	taking->done = done;
	taking->data = data;
	taking->fd = -1;
	taking->sum = vial_sha256_new();
	g_queue_init(&taking->arrived);
	g_queue_init(&taking->batch);
	watch_stall(taking);
	taking->stream = vial_stream_open(vial_instance_channel(instance),
	                                  json_pack("{s:s, s:I}", "op", "layer", "max_bytes", (json_int_t)taking->max_bytes), &events, taking);
}
