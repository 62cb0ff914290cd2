/* SPDX-License-Identifier: Apache-2.0 */
#include "service/template.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#include "service/edition.h"
#include "service/layer.h"
#include "service/manifest.h"
#include "service/prune.h"
#include "service/runtime.h"
#include "service/template_private.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/json_fields.h"
#include "util/log.h"
#include "util/tree.h"

#define KEY_LENGTH 16

/* Defaults for images whose manifest names none. */
static const VialLimits default_limits = { .cpu = 2, .memory_mb = 2048, .disk_mb = 4096, .process_limit = 512 };

void vial_template_free(VialTemplate *template)
{
	if (!template)
		return;
	g_free(template->name);
	g_free(template->summary);
	g_strfreev(template->aliases);
	g_free(template->hash);
	g_free(template->image_hash);
	g_free(template->base_hash);
	g_free(template->rootfs);
	g_free(template->checkpoint);
	g_free(template->created_at);
	vial_fd_clear(&template->hold);
	g_free(template->project);
	g_free(template->folder);
	g_strfreev(template->layers);
	json_decref(template->env);
	g_free(template->workdir);
	g_free(template->warm);
	g_free(template->start_command);
	g_free(template->ready_command);
	g_free(template->start_user);
	g_free(template);
}

static char **string_list(json_t *array)
{
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
	size_t index;
	json_t *item;

	json_array_foreach (array, index, item)
		if (json_is_string(item))
			g_strv_builder_add(builder, json_string_value(item));
	return g_strv_builder_end(builder);
}

static void read_limit(json_t *manifest, const char *field, gint64 *out)
{
	json_t *value = json_object_get(manifest, field);

	if (json_is_integer(value) && json_integer_value(value) > 0)
		*out = json_integer_value(value);
}

/* What a custom one has besides; an image's key stays as it was. */
static char *custom_key(const VialTemplate *template)
{
	g_autofree char *layers = template->layers ? g_strjoinv(",", template->layers) : NULL;
	g_autofree char *env = template->env ? json_dumps(template->env, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	g_autofree char *start = vial_template_start_key(template);

	if (!template->folder)
		return g_strdup("");
	/* Its project too: what one of them has made ready is not another's, though it be the same. */
	return g_strdup_printf("|%s|%s|%s|%s|%s%s", template->project, layers ? layers : "", env ? env : "",
	                       template->workdir ? template->workdir : "", template->warm ? template->warm : "", start);
}

static char *checkpoint_key(VialApp *app, const VialTemplate *template, const char *runtime_hash)
{
	g_autofree char *custom = custom_key(template);
	/* CPU features decide whether a checkpoint can be restored: programs have seen them. */
	const char *cpu = vial_manifests_cpu(app->manifests);
	/* Its size too: a virtual machine is restored with the one it had. */
	g_autofree char *all = g_strdup_printf("%s|%s|%s|%s|%s|%" G_GINT64_FORMAT "|%" G_GINT64_FORMAT "|%g|%s%s", template->image_hash, runtime_hash,
	                                       app->engine->ops->name, app->engine->ops->version(app->engine), cpu, template->limits.disk_mb,
	                                       template->limits.memory_mb, template->limits.cpu, VIAL_VERSION, custom);
	g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, all, -1);

	return g_strndup(sum, KEY_LENGTH);
}

void vial_template_set_hash(VialApp *app, VialTemplates *templates, VialTemplate *template)
{
	g_free(template->hash);
	template->hash = checkpoint_key(app, template, templates->runtime_hash);
}

/* One that does not prove itself would be refused at every restore; without it the template is baked anew. */
static gboolean may_use(VialApp *app, const char *checkpoint)
{
	g_autoptr(GError) error = NULL;
	gboolean needs_deep;

	if (vial_manifest_check(app->manifests, checkpoint, &needs_deep, NULL, &error))
		return TRUE;
	vial_log_warning("template", "a baked checkpoint is thrown away", "path", checkpoint, "error", error->message);
	vial_tree_remove(checkpoint);
	return FALSE;
}

/* An image's own, and those that the operator gave it: ALIAS=NAME. */
static char **read_aliases(VialApp *app, const json_t *manifest, const char *name)
{
	g_auto(GStrv) own = string_list(json_object_get(manifest, "aliases"));
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();

	if (own)
		g_strv_builder_addv(builder, (const char **)own);
	for (char **entry = app->config->template_aliases; *entry; entry++) {
		const char *equals = strchr(*entry, '=');
		g_autofree char *alias = equals ? g_strndup(*entry, (gsize)(equals - *entry)) : NULL;

		if (alias && strcmp(equals + 1, name) == 0 && !(own && g_strv_contains((const char *const *)own, alias)))
			g_strv_builder_add(builder, alias);
	}
	return g_strv_builder_end(builder);
}

VialTemplate *vial_template_load(VialApp *app, VialTemplates *templates, const char *path)
{
	g_autoptr(json_t) manifest = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	const char *name = json_string_value(json_object_get(manifest, "name"));
	const char *rootfs = json_string_value(json_object_get(manifest, "rootfs"));
	const char *hash = json_string_value(json_object_get(manifest, "hash"));
	VialTemplate *template;

	if (!name || !rootfs || !hash || !g_file_test(rootfs, G_FILE_TEST_IS_DIR)) {
		vial_log_warning("template", "an image was passed over: its manifest or its files are missing", "path", path);
		return NULL;
	}
	template = g_new0(VialTemplate, 1);
	template->name = g_strdup(name);
	template->summary = g_strdup(json_string_value(json_object_get(manifest, "summary")));
	template->created_at = g_strdup(json_string_value(json_object_get(manifest, "created_at")));
	template->aliases = read_aliases(app, manifest, name);
	template->rootfs = g_strdup(rootfs);
	template->image_hash = g_strdup(hash);
	template->size_bytes = json_integer_value(json_object_get(manifest, "size_bytes"));
	template->limits = default_limits;
	read_limit(manifest, "memory_mb", &template->limits.memory_mb);
	read_limit(manifest, "disk_mb", &template->limits.disk_mb);
	read_limit(manifest, "process_limit", &template->limits.process_limit);
	if (json_number_value(json_object_get(manifest, "cpu")) > 0)
		template->limits.cpu = json_number_value(json_object_get(manifest, "cpu"));
	vial_template_set_hash(app, templates, template);
	template->hold = -1;
	vial_template_take_checkpoint(app, templates, template);
	return template;
}

gboolean vial_template_take_checkpoint(VialApp *app, VialTemplates *templates, VialTemplate *template)
{
	g_autofree char *checkpoint = vial_template_checkpoint_dir(app, template);

	template->hold = vial_images_hold(checkpoint);
	if (template->hold >= 0 && may_use(app, checkpoint))
		template->checkpoint = g_steal_pointer(&checkpoint);
	else
		vial_fd_clear(&template->hold);
	return template->checkpoint != NULL;
}

char *vial_template_home(VialApp *app, const VialTemplate *template)
{
	char *folder = vial_template_folder(app, template);

	return folder ? folder : g_strdup(app->config->images_dir);
}

char *vial_template_checkpoint_dir(VialApp *app, const VialTemplate *template)
{
	g_autofree char *home = vial_template_home(app, template);

	if (template->folder && template->base_hash)
		return g_strdup_printf("%s/baked-%s-%s", home, template->base_hash, template->hash);
	return template->folder ? g_strdup_printf("%s/baked-%s", home, template->hash)
	                        : g_strdup_printf("%s/baked-%s-%s", home, template->name, template->hash);
}

VialTemplates *vial_templates_load(VialApp *app, GError **error)
{
	VialTemplates *templates = g_new0(VialTemplates, 1);
	g_autoptr(GDir) dir = NULL;
	const char *name;

	templates->runtime_hold = templates->watch_fd = -1;
	templates->all = g_ptr_array_new_with_free_func((GDestroyNotify)vial_template_free);
	templates->stamps = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	templates->images_dir = g_strdup(app->config->images_dir);
	dir = g_dir_open(templates->images_dir, 0, NULL);
	if (!dir) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "there are no guest images in %s; `make up` builds them", templates->images_dir);
		goto failed;
	}
	vial_layers_sweep(app);
	g_queue_init(&templates->waiting_bakes);
	if (!vial_manifests_share(app->manifests, templates->images_dir, error) ||
	    !vial_runtime_install(app->config->program_dir, templates->images_dir, &templates->runtime_dir, &templates->runtime_hash, error))
		goto failed;
	templates->runtime_hold = vial_images_hold(templates->runtime_dir);
	if (templates->runtime_hold < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "%s was removed while it was being taken up; start again", templates->runtime_dir);
		goto failed;
	}
	while ((name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(templates->images_dir, name, NULL);
		VialTemplate *template;

		if (!g_str_has_suffix(name, ".json"))
			continue;
		vial_template_note(templates, path);
		template = vial_template_load(app, templates, path);
		if (template)
			g_ptr_array_add(templates->all, template);
	}
	if (templates->all->len > 0)
		return templates;
	vial_fail(error, VIAL_ERROR_INTERNAL, "there are no guest images in %s; `make up` builds them", templates->images_dir);
failed:
	vial_templates_free(templates);
	return NULL;
}

void vial_templates_free(VialTemplates *templates)
{
	if (!templates)
		return;
	vial_templates_unwatch(templates);
	vial_template_free(templates->incoming);
	vial_editions_free(templates);
	g_ptr_array_unref(templates->all);
	g_hash_table_unref(templates->stamps);
	g_free(templates->images_dir);
	g_free(templates->runtime_dir);
	g_free(templates->runtime_hash);
	vial_fd_clear(&templates->runtime_hold);
	g_free(templates);
}

static VialTemplate *find_of(VialTemplates *templates, const char *project, const char *name)
{
	for (guint i = 0; i < templates->all->len; i++) {
		VialTemplate *template = templates->all->pdata[i];

		if (g_strcmp0(template->project, project) != 0)
			continue;
		if (strcmp(template->name, name) == 0 || (template->aliases && g_strv_contains((const char *const *)template->aliases, name)))
			return template;
	}
	return NULL;
}

VialTemplate *vial_templates_find_in(VialTemplates *templates, const char *project, const char *name)
{
	VialTemplate *own = project ? find_of(templates, project, name) : NULL;

	return own ? own : find_of(templates, NULL, name);
}

GPtrArray *vial_templates_all(VialTemplates *templates)
{
	return templates->all;
}

gboolean vial_template_is_listed(VialTemplates *templates, const VialTemplate *template)
{
	return g_ptr_array_find(templates->all, template, NULL);
}

const char *vial_templates_runtime_dir(const VialTemplates *templates)
{
	return templates->runtime_dir;
}

/* A template as the API shows it. */
typedef struct {
	VialTemplate template;
	const char *engine;
	gboolean is_global; /* every project may use it */
	const char *rootfs_path;
} Shown;

static json_t *aliases(gconstpointer instance)
{
	const Shown *shown = instance;
	json_t *list = json_array();

	for (char **alias = shown->template.aliases; alias && *alias; alias++)
		json_array_append_new(list, json_string(*alias));
	return list;
}

static json_t *is_ready(gconstpointer instance)
{
	const Shown *shown = instance;

	return json_boolean(shown->template.checkpoint != NULL);
}

static const VialField shown_fields[] = {
	{ VIAL_FIELD("name", TEXT, Shown, template.name) },
	{ VIAL_FIELD("description", TEXT, Shown, template.summary) },
	{ .name = "aliases", .type = VIAL_FIELD_VALUE, .get = aliases },
	{ VIAL_FIELD("hash", TEXT, Shown, template.hash) },
	{ VIAL_FIELD("engine", TEXT, Shown, engine) },
	{ VIAL_FIELD("cpu", DOUBLE, Shown, template.limits.cpu) },
	{ VIAL_FIELD("memory_mb", INT, Shown, template.limits.memory_mb) },
	{ VIAL_FIELD("disk_mb", INT, Shown, template.limits.disk_mb) },
	{ VIAL_FIELD("size_bytes", INT, Shown, template.size_bytes) },
	{ .name = "ready", .type = VIAL_FIELD_VALUE, .get = is_ready },
	{ VIAL_FIELD("is_global", BOOL, Shown, is_global) },
	{ VIAL_FIELD("created_at", TEXT, Shown, template.created_at) },
	{ VIAL_FIELD("rootfs_path", TEXT, Shown, rootfs_path) },
};

json_t *vial_template_json(const VialTemplate *template, const char *engine)
{
	/* Where it lies on the host is nobody's business; PandaStack's clients want the field. */
	Shown shown = { .template = *template, .engine = engine, .is_global = template->project == NULL, .rootfs_path = "" };

	return vial_fields_write(shown_fields, G_N_ELEMENTS(shown_fields), &shown);
}
