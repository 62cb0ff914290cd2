/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What custom templates have on the disk: folders with checkpoints (templates/ID) and layers (layers/HASH). A layer stays as long as a sandbox (awake
 * or asleep), a snapshot, a template or a build under way names it; a folder as long as a sandbox is just being made from it. Looking and taking out
 * of sight happen on the main loop, so that nobody can begin to need one in between; the removal itself, which may take its time, does not.
 */
#include <glib/gstdio.h>
#include <string.h>

#include "service/builds.h"
#include "service/custom_templates_private.h"
#include "service/edition.h"
#include "service/layer.h"
#include "service/sandbox_private.h"
#include "service/start.h"
#include "util/log.h"
#include "util/tree.h"

#define RETRY_MS 1000
#define REMOVED_PREFIX ".gone-"

typedef struct {
	char *folder;
	char **hashes; /* of the template and its other sizes; NULL: nobody can be using it */
	char *snapshot_id;
} Doomed;

static void doomed_free(Doomed *doomed)
{
	g_free(doomed->folder);
	g_strfreev(doomed->hashes);
	g_free(doomed->snapshot_id);
	g_free(doomed);
}

/* Whoever is being created reads its checkpoint; afterwards it has all it needs. */
static gboolean is_being_read(VialApp *app, char **hashes)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, vial_sandboxes_table(app->sandboxes));
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const VialSandbox *sandbox = value;

		if (sandbox->state == VIAL_STATE_CREATING && sandbox->template_hash &&
		    g_strv_contains((const char *const *)hashes, sandbox->template_hash))
			return TRUE;
	}
	return FALSE;
}

static char *folder_path(VialApp *app, const char *folder)
{
	return g_build_filename(app->config->data_dir, "templates", folder, NULL);
}

static void on_snapshot_gone(const GError *error, gpointer data)
{
	if (error)
		vial_log_error("template", "the snapshot of a deleted template is still there", "error", error->message);
}

static gboolean remove_doomed(VialApp *app, const Doomed *doomed)
{
	g_autofree char *path = folder_path(app, doomed->folder);
	VialSnapshot *snapshot = doomed->snapshot_id ? vial_snapshots_by_id(app, doomed->snapshot_id) : NULL;

	if ((doomed->hashes && is_being_read(app, doomed->hashes)) || (snapshot && snapshot->users > 0))
		return FALSE;
	if (snapshot)
		vial_snapshot_delete(app, snapshot, on_snapshot_gone, NULL);
	if (!doomed->snapshot_id)
		vial_tree_remove_later(path);
	return TRUE;
}

static gboolean on_retry(gpointer data)
{
	VialApp *app = data;
	GPtrArray *list = app->custom_templates->doomed;

	for (guint i = list->len; i > 0; i--) {
		if (!remove_doomed(app, list->pdata[i - 1]))
			continue;
		doomed_free(list->pdata[i - 1]);
		g_ptr_array_remove_index(list, i - 1);
	}
	if (list->len > 0)
		return G_SOURCE_CONTINUE;
	app->custom_templates->retry = 0;
	return G_SOURCE_REMOVE;
}

void vial_custom_template_doom(VialApp *app, const char *folder, const char *hash, const char *snapshot_id)
{
	Doomed *doomed = g_new0(Doomed, 1);

	*doomed = (Doomed){ g_strdup(folder), hash ? vial_edition_hashes(app, hash) : NULL, g_strdup(snapshot_id) };
	if (remove_doomed(app, doomed))
		return doomed_free(doomed);
	g_ptr_array_add(app->custom_templates->doomed, doomed);
	if (!app->custom_templates->retry)
		app->custom_templates->retry = g_timeout_add(RETRY_MS, on_retry, app);
}

void vial_custom_template_baked(VialApp *app, const VialTemplate *template)
{
	if (template->folder && !vial_custom_templates_by_id(app, template->folder))
		vial_custom_template_doom(app, template->folder, template->base_hash ? template->base_hash : template->hash, NULL);
}

/* Layers */

static void need(const char *layer, gpointer data)
{
	g_hash_table_add(data, g_strdup(layer));
}

static void need_all(const VialCustomTemplate *custom, GHashTable *promised)
{
	const json_t *item;
	gsize i;

	json_array_foreach (json_object_get(custom->record, "layers"), i, item)
		need(json_string_value(item), promised);
}

/* Those that no sandbox, no snapshot and no template in the list has, but that are needed all the same. */
static GHashTable *promised_layers(VialApp *app)
{
	GHashTable *promised = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	const GPtrArray *adding = app->custom_templates->adding;
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->custom_templates->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		need_all(value, promised);
	for (guint i = 0; i < adding->len; i++)
		need_all(adding->pdata[i], promised);
	vial_builds_each_layer(app, need, promised);
	return promised;
}

static gboolean has_damaged(VialApp *app)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, vial_sandboxes_table(app->sandboxes));
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (((VialSandbox *)value)->is_damaged)
			return TRUE;
	return FALSE;
}

void vial_layers_collect(VialApp *app)
{
	g_autoptr(GHashTable) promised = NULL;
	g_autoptr(GDir) dir = NULL;
	g_autofree char *folder = g_build_filename(app->config->data_dir, "layers", NULL);
	const char *name;

	/* One that is just being packed may be equal to one that nobody needs; its build sweeps when it is over. What cannot be read may need
	 * anything. */
	if (!app->custom_templates->knows_all || vial_builds_are_packing(app) || has_damaged(app))
		return;
	dir = g_dir_open(folder, 0, NULL);
	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(folder, name, NULL), *gone = g_strdup_printf("%s/" REMOVED_PREFIX "%s", folder, name);
		g_autofree char *layer = g_strndup(name, strcspn(name, "."));

		if (g_str_has_prefix(name, REMOVED_PREFIX)) {
			vial_tree_remove_later(path);
			continue;
		}
		if (!vial_layer_is_name(layer))
			continue;
		if (!promised)
			promised = promised_layers(app);
		if (!g_hash_table_contains(promised, layer) && !vial_layer_is_used(app, layer) && g_rename(path, gone) == 0)
			vial_tree_remove_later(gone);
	}
}

/* After a start */

static void remove_strays(VialApp *app)
{
	g_autofree char *folder = g_build_filename(app->config->data_dir, "templates", NULL);
	g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
	const char *name;

	while (app->custom_templates->knows_all && dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(folder, name, NULL);

		if (!g_hash_table_contains(app->custom_templates->by_id, name) && !vial_builds_use_folder(app, name))
			vial_tree_remove_later(path);
	}
}

/* Builds that waited may want one of them as a base. */
static void brought_up(VialApp *app)
{
	if (--app->custom_templates->coming_up == 0)
		vial_builds_begin(app);
}

static void on_ready(VialTemplate *template, const GError *error, gpointer data)
{
	VialApp *app = data;
	VialCustomTemplate *custom = g_hash_table_lookup(app->custom_templates->by_id, template->folder);

	brought_up(app);

	if (!custom || error) {
		if (custom) {
			g_free(custom->problem);
			custom->problem = g_strdup_printf("it could not be baked again: %s", error->message);
		}
		vial_custom_template_baked(app, template);
		vial_template_free(template);
		return;
	}
	g_clear_pointer(&custom->problem, g_free);
	vial_custom_template_set_names(template, custom); /* its tags may have changed meanwhile */
	vial_templates_put(app, template);
}

static void bring_up(VialApp *app, VialCustomTemplate *custom)
{
	g_autoptr(GError) error = NULL;
	VialTemplate *template = custom->record ? vial_template_from_record(app, custom->record, &error) : NULL;

	if (!template) {
		if (!custom->snapshot_id)
			custom->problem = g_strdup_printf("its record cannot be used: %s", error ? error->message : "it is incomplete");
		return;
	}
	vial_custom_template_set_names(template, custom);
	custom->problem = g_strdup("it is being made ready; after an upgrade it is baked again");
	app->custom_templates->coming_up++;
	vial_template_make_ready(app, template, NULL, VIAL_START_MAX_SECONDS, on_ready, app);
}

void vial_custom_templates_start(VialApp *app)
{
	GHashTableIter iter;
	gpointer value;

	remove_strays(app);
	app->custom_templates->coming_up = 1; /* ours, until all are counted */
	g_hash_table_iter_init(&iter, app->custom_templates->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		bring_up(app, value);
	vial_layers_collect(app);
	brought_up(app);
}

void vial_custom_templates_free(VialCustomTemplates *templates)
{
	if (!templates)
		return;
	g_clear_handle_id(&templates->retry, g_source_remove);
	for (guint i = 0; i < templates->doomed->len; i++)
		doomed_free(templates->doomed->pdata[i]);
	g_ptr_array_unref(templates->adding);
	g_ptr_array_unref(templates->making);
	g_ptr_array_unref(templates->doomed);
	g_hash_table_unref(templates->by_id);
	g_free(templates);
}
