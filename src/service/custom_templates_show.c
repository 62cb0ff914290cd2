/* SPDX-License-Identifier: Apache-2.0 */
/* A custom template as the API shows it, and one that is made out of a sandbox. */
#include <glib/gstdio.h>
#include <string.h>

#include "service/custom_templates_private.h"
#include "service/layer.h"
#include "service/quota.h"
#include "service/sandbox_private.h"
#include "util/id.h"
#include "util/json.h"
#include "util/time.h"

static gint64 layers_bytes(VialApp *app, const VialTemplate *live)
{
	gint64 total = 0;

	for (guint i = 0; live && live->layers && live->layers[i]; i++) {
		g_autofree char *path = vial_layer_path(app, live->layers[i]);
		GStatBuf info;

		if (g_stat(path, &info) == 0)
			total += info.st_size;
	}
	return total;
}

static json_t *shown_live(VialApp *app, const VialCustomTemplate *custom)
{
	const VialTemplate *live = vial_custom_template_live(app, custom);
	const VialSnapshot *snapshot = custom->snapshot_id ? vial_snapshots_by_id(app, custom->snapshot_id) : NULL;
	json_t *json;

	if (live)
		return vial_template_json(live, app->engine->ops->name);
	json = json_pack("{s:s, s:b, s:[], s:s, s:s}", "engine", app->engine->ops->name, "ready", snapshot != NULL, "aliases", "rootfs_path", "",
	                 "hash", custom->snapshot_id ? custom->snapshot_id : "");
	if (snapshot) {
		static const char *const sizes[] = { "cpu", "memory_mb", "disk_mb" };

		for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++)
			json_object_set(json, sizes[i], json_object_get(snapshot->facts, sizes[i]));
		json_object_set_new(json, "size_bytes", json_integer(snapshot->size_bytes));
		json_object_set_new(json, "snapshot_id", json_string(snapshot->id));
	}
	return json;
}

static void copy(json_t *json, const json_t *from, const char *name)
{
	json_t *value = json_object_get(from, name);

	if (value)
		json_object_set(json, name, value);
}

json_t *vial_custom_template_json(VialApp *app, const VialCustomTemplate *custom, gboolean is_whole)
{
	json_t *json = shown_live(app, custom), *tags = json_array();
	g_autofree char *name = vial_custom_template_name(custom);
	const VialTemplate *live = vial_custom_template_live(app, custom);
	gboolean is_ready = json_is_true(json_object_get(json, "ready"));
	static const char *const start_fields[] = { "start_command", "ready_command", "start_user" };
	char created[VIAL_TIME_TEXT_SIZE];

	for (guint i = 0; i < custom->tags->len; i++)
		json_array_append_new(tags, json_string(custom->tags->pdata[i]));
	vial_time_fill(created, custom->created_at_ms);
	json_object_set_new(json, "name", json_string(name));
	json_object_set_new(json, "template_id", json_string(custom->id));
	json_object_set_new(json, "tags", tags);
	json_object_set_new(json, "is_global", json_false());
	json_object_set_new(json, "status", json_string(is_ready ? "ready" : custom->snapshot_id ? "failed" : "baking"));
	json_object_set_new(json, "stale", json_boolean(vial_custom_template_is_stale(app, custom)));
	json_object_set_new(json, "created_at", json_string(created));
	json_object_set_new(json, "layer_bytes", json_integer(custom->layer_bytes));
	json_object_set_new(json, "layers_bytes", json_integer(layers_bytes(app, live)));
	if (custom->base)
		json_object_set_new(json, "base", json_string(custom->base));
	if (custom->sandbox_id)
		json_object_set_new(json, "sandbox_id", json_string(custom->sandbox_id));
	if (custom->problem)
		json_object_set_new(json, "problem", json_string(custom->problem));
	if (custom->source)
		json_object_set_new(json, "build_id", json_string(custom->id));
	/* Of its own or its base's; out of a memory only what was said with it. */
	for (gsize i = 0; is_whole && i < G_N_ELEMENTS(start_fields); i++)
		copy(json, custom->record ? custom->record : custom->source, start_fields[i]);
	if (is_whole && custom->source) {
		static const char *const fields[] = { "dockerfile", "args", "network", "secret_names", "warm", "timeout_seconds" };

		for (gsize i = 0; i < G_N_ELEMENTS(fields); i++)
			copy(json, custom->source, fields[i]);
		json_object_set(json, "steps", custom->steps);
	}
	return json;
}

/* Out of a sandbox */

typedef struct {
	VialApp *app;
	VialCustomTemplate *custom;
	char *project, *key_id, *name, *tag; /* what a quota wants to know of it */
	void (*done)(VialCustomTemplate *custom, const GError *error, gpointer data);
	gpointer data;
} Making;

guint vial_custom_templates_promised(VialApp *app, const char *project, const char *key_id)
{
	const GPtrArray *list = app->custom_templates->making;
	guint count = 0;

	for (guint i = 0; i < list->len; i++) {
		const Making *making = list->pdata[i];

		count += strcmp(making->project, project) == 0 && (!key_id || strcmp(making->key_id, key_id) == 0) &&
		         !vial_custom_templates_replaces(app, project, making->name, making->tag);
	}
	return count;
}

static void making_end(Making *making, VialCustomTemplate *custom, const GError *error)
{
	g_ptr_array_remove(making->app->custom_templates->making, making);
	making->done(error ? NULL : custom, error, making->data);
	g_free(making->project);
	g_free(making->key_id);
	g_free(making->name);
	g_free(making->tag);
	g_free(making);
}

static void on_added(const GError *error, gpointer data)
{
	Making *making = data;

	making_end(making, making->custom, error);
}

static void on_taken(VialSnapshot *snapshot, const GError *error, gpointer data)
{
	Making *making = data;

	if (error) {
		vial_custom_template_free(g_steal_pointer(&making->custom));
		return making_end(making, NULL, error);
	}
	making->custom->snapshot_id = g_strdup(snapshot->id);
	vial_custom_templates_add(making->app, making->custom, NULL, making->tag, on_added, making);
}

void vial_custom_template_from_sandbox(VialSandbox *sandbox, const VialIdentity *principal, const char *name, const char *tag,
                                       void (*done)(VialCustomTemplate *custom, const GError *error, gpointer data), gpointer data)
{
	g_autofree char *id = vial_id_new();
	g_autoptr(GError) error = NULL;
	Making *making;

	if (!vial_quota_admit_template(sandbox->app, principal, name, tag, &error)) {
		done(NULL, error, data);
		return;
	}
	making = g_new0(Making, 1);
	*making = (Making){
		.app = sandbox->app,
		.project = g_strdup(sandbox->project),
		.key_id = g_strdup(principal->id),
		.name = g_strdup(name),
		.tag = g_strdup(tag),
		.done = done,
		.data = data,
	};
	making->custom = vial_custom_template_new(id, sandbox->project, principal->id, name);
	making->custom->sandbox_id = g_strdup(sandbox->id);
	g_ptr_array_add(sandbox->app->custom_templates->making, making);
	vial_snapshot_take(sandbox, principal, NULL, on_taken, making);
}
