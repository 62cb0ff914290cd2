/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom templates: an image with layers, environment, warm code and start command of a project's own. Their records are the builder's; their
 * checkpoints lie in a folder of their own below `templates/` of the data directory, because they are this installation's alone, as the layers are.
 */
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#include "service/layer.h"
#include "service/pool.h"
#include "service/sandbox_private.h"
#include "service/snapshot.h"
#include "service/template_private.h"
#include "util/fd.h"
#include "util/id.h"
#include "util/json.h"
#include "util/json_fields.h"
#include "util/tree.h"
#include "util/worker.h"

char *vial_template_folder(VialApp *app, const VialTemplate *template)
{
	return template->folder ? g_build_filename(app->config->data_dir, "templates", template->folder, NULL) : NULL;
}

VialTemplate *vial_template_derive(const VialTemplate *base)
{
	VialTemplate *template = g_new0(VialTemplate, 1);

	template->image_hash = g_strdup(base->image_hash);
	template->rootfs = g_strdup(base->rootfs);
	template->limits = base->limits;
	template->size_bytes = base->size_bytes;
	template->layers = g_strdupv(base->layers);
	template->env = base->env ? json_deep_copy(base->env) : NULL;
	template->workdir = g_strdup(base->workdir);
	vial_template_set_start(template, base->start_command, base->ready_command, base->start_user);
	template->hold = -1;
	return template;
}

static char *text_or_null(const char *text)
{
	return text && *text ? g_strdup(text) : NULL;
}

void vial_template_set_start(VialTemplate *template, const char *command, const char *ready, const char *user)
{
	if (!command && !ready)
		return;
	g_free(template->start_command);
	g_free(template->ready_command);
	g_free(template->start_user);
	template->start_command = text_or_null(command);
	template->ready_command = text_or_null(ready);
	template->start_user = text_or_null(user);
}

gboolean vial_template_has_start(const VialTemplate *template)
{
	return template->start_command || template->ready_command;
}

char *vial_template_start_key(const VialTemplate *template)
{
	g_autoptr(json_t) all = NULL;

	if (!vial_template_has_start(template))
		return g_strdup("");
	all = json_pack("[s?, s?, s?]", template->start_command, template->ready_command, template->start_user);
	return json_dumps(all, JSON_COMPACT);
}

/* Records: `rootfs` is kept relative to the images, see below. */
static const VialField kept[] = {
	{ VIAL_FIELD("name", TEXT, VialTemplate, name), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("summary", TEXT, VialTemplate, summary) },
	{ VIAL_FIELD("aliases", LIST, VialTemplate, aliases) },
	{ VIAL_FIELD("image_hash", TEXT, VialTemplate, image_hash), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("rootfs", TEXT, VialTemplate, rootfs), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("cpu", DOUBLE, VialTemplate, limits.cpu), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("memory_mb", INT, VialTemplate, limits.memory_mb), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("disk_mb", INT, VialTemplate, limits.disk_mb), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("process_limit", INT, VialTemplate, limits.process_limit), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("size_bytes", INT, VialTemplate, size_bytes) },
	{ VIAL_FIELD("created_at", TEXT, VialTemplate, created_at) },
	{ VIAL_FIELD("project", TEXT, VialTemplate, project) },
	{ VIAL_FIELD("folder", TEXT, VialTemplate, folder), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("layers", LIST, VialTemplate, layers) },
	{ VIAL_FIELD("env", OBJECT, VialTemplate, env) },
	{ VIAL_FIELD("workdir", TEXT, VialTemplate, workdir) },
	{ VIAL_FIELD("warm", TEXT, VialTemplate, warm) },
	{ VIAL_FIELD("start_command", TEXT, VialTemplate, start_command) },
	{ VIAL_FIELD("ready_command", TEXT, VialTemplate, ready_command) },
	{ VIAL_FIELD("start_user", TEXT, VialTemplate, start_user) },
};

json_t *vial_template_to_record(VialApp *app, const VialTemplate *template)
{
	json_t *record = vial_fields_write(kept, G_N_ELEMENTS(kept), template);
	gsize length = strlen(app->config->images_dir);

	if (g_str_has_prefix(template->rootfs, app->config->images_dir) && template->rootfs[length] == '/')
		json_object_set_new(record, "rootfs", json_string(template->rootfs + length + 1));
	return record;
}

VialTemplate *vial_template_from_record(VialApp *app, const json_t *record, GError **error)
{
	VialTemplate *template = g_new0(VialTemplate, 1);
	char *rootfs;

	template->hold = -1;
	if (!vial_fields_read(kept, G_N_ELEMENTS(kept), record, template, error))
		goto failed;
	if (!vial_id_is_valid(template->folder)) {
		vial_fail(error, VIAL_ERROR_INVALID, "its folder can be none");
		goto failed;
	}
	rootfs = g_canonicalize_filename(template->rootfs, app->config->images_dir);
	g_free(template->rootfs);
	template->rootfs = rootfs;
	return template;
failed:
	vial_template_free(template);
	return NULL;
}

/* Making one ready */

typedef struct {
	VialApp *app;
	VialTemplate *template;
	VialBuildLog *log;
	gint64 start_seconds;
	GError *error;
	VialTemplateReady done;
	gpointer data;
} Readying;

static void readied(Readying *readying)
{
	readying->done(readying->template, readying->error, readying->data);
	g_clear_error(&readying->error);
	vial_build_log_unref(readying->log);
	g_free(readying);
}

/* What a viald that died while baking has left, and checkpoints that fit no more: of an older agent, or another gVisor. */
static void remove_others(const char *home, const char *kept_name)
{
	g_autoptr(GDir) dir = g_dir_open(home, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(home, name, NULL);

		/* What begins with its name is its own checkpoint, or an edition's. */
		if ((g_str_has_prefix(name, "baking-") || g_str_has_prefix(name, "baked-")) && !g_str_has_prefix(name, kept_name))
			vial_tree_remove(path);
	}
}

static gboolean look_for_files(Readying *readying)
{
	g_auto(GStrv) paths = NULL;

	if (!g_file_test(readying->template->rootfs, G_FILE_TEST_IS_DIR))
		return vial_fail(&readying->error, VIAL_ERROR_UNAVAILABLE, "the image it was built on is gone; build it again");
	return vial_layers_resolve(readying->app, (const char *const *)readying->template->layers, &paths, &readying->error);
}

static void find_work(gpointer data)
{
	Readying *readying = data;
	VialApp *app = readying->app;
	VialTemplate *template = readying->template;
	g_autofree char *home = vial_template_home(app, template), *name = NULL;

	if (!look_for_files(readying))
		return;
	if (g_mkdir_with_parents(home, 0700) < 0) {
		vial_fail(&readying->error, errno == ENOSPC ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "its folder could not be made: %s",
		          g_strerror(errno));
		return;
	}
	name = g_strdup_printf("baked-%s", template->hash);
	if (template->folder && !template->base_hash)
		remove_others(home, name);
	vial_template_take_checkpoint(app, app->templates, template);
}

static void on_baked(guint failures, const char *problem, gpointer data)
{
	Readying *readying = data;

	if (failures)
		vial_fail(&readying->error, VIAL_ERROR_UNAVAILABLE, "%s", problem ? problem : "it could not be baked");
	readied(readying);
}

static void find_done(gpointer data)
{
	Readying *readying = data;

	if (readying->error || readying->template->checkpoint)
		readied(readying);
	else
		vial_template_bake(readying->app, readying->template, readying->log, readying->start_seconds, on_baked, readying);
}

void vial_template_make_ready(VialApp *app, VialTemplate *template, VialBuildLog *log, gint64 start_seconds, VialTemplateReady done, gpointer data)
{
	Readying *readying = g_new0(Readying, 1);

	*readying = (Readying){ .app = app, .template = template, .start_seconds = start_seconds, .done = done, .data = data };
	readying->log = log ? vial_build_log_ref(log) : NULL;
	g_clear_pointer(&template->checkpoint, g_free);
	vial_fd_clear(&template->hold);
	vial_template_set_hash(app, app->templates, template);
	vial_worker_run(find_work, find_done, readying);
}

/* The list */

static gboolean is_called(const VialTemplate *template, const char *project, const char *name)
{
	return g_strcmp0(template->project, project) == 0 && strcmp(template->name, name) == 0;
}

void vial_templates_put(VialApp *app, VialTemplate *template)
{
	GPtrArray *all = app->templates->all;

	for (guint i = 0; i < all->len; i++) {
		if (!is_called(all->pdata[i], template->project, template->name))
			continue;
		vial_template_free(all->pdata[i]);
		all->pdata[i] = template;
		vial_pool_refresh(app->pool);
		return;
	}
	g_ptr_array_add(all, template);
	vial_pool_refresh(app->pool);
}

gboolean vial_templates_drop(VialApp *app, const char *project, const char *name)
{
	GPtrArray *all = app->templates->all;

	for (guint i = 0; i < all->len; i++) {
		if (!is_called(all->pdata[i], project, name))
			continue;
		g_ptr_array_remove_index(all, i);
		vial_pool_refresh(app->pool);
		return TRUE;
	}
	return FALSE;
}

/* Who has a layer */

static gboolean has_name(char **layers, const char *name)
{
	return layers && g_strv_contains((const char *const *)layers, name);
}

static gboolean snapshot_has(const VialSnapshot *snapshot, gconstpointer name)
{
	json_t *item;
	size_t index;

	json_array_foreach (json_object_get(snapshot->facts, "layers"), index, item)
		if (g_strcmp0(json_string_value(item), name) == 0)
			return TRUE;
	return FALSE;
}

gboolean vial_layer_is_used(VialApp *app, const char *name)
{
	GPtrArray *templates = app->templates->all;
	GHashTableIter iter;
	gpointer value;

	for (guint i = 0; i < templates->len; i++)
		if (has_name(((VialTemplate *)templates->pdata[i])->layers, name))
			return TRUE;
	g_hash_table_iter_init(&iter, vial_sandboxes_table(app->sandboxes));
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (has_name(((VialSandbox *)value)->layers, name))
			return TRUE;
	return vial_snapshots_any(app, snapshot_has, name);
}
