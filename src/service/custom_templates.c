/* SPDX-License-Identifier: Apache-2.0 */
#include "service/custom_templates.h"

#include <glib/gstdio.h>
#include <string.h>

#include "service/builds.h"
#include "service/custom_templates_private.h"
#include "service/layer.h"
#include "service/pool.h"
#include "util/id.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

#define NAME_MAX_BYTES 63
#define TAG_MAX_BYTES 63

VialCustomTemplate *vial_custom_template_new(const char *id, const char *project, const char *key_id, const char *name)
{
	VialCustomTemplate *custom = g_new0(VialCustomTemplate, 1);

	custom->id = g_strdup(id);
	custom->project = g_strdup(project);
	custom->key_id = g_strdup(key_id);
	custom->name = g_strdup(name);
	custom->tags = g_ptr_array_new_with_free_func(g_free);
	return custom;
}

void vial_custom_template_free(VialCustomTemplate *custom)
{
	if (!custom)
		return;
	g_free(custom->id);
	g_free(custom->project);
	g_free(custom->key_id);
	g_free(custom->name);
	g_ptr_array_unref(custom->tags);
	g_free(custom->base);
	g_free(custom->base_hash);
	json_decref(custom->source);
	json_decref(custom->steps);
	g_free(custom->cache_key);
	g_free(custom->layer);
	g_free(custom->snapshot_id);
	g_free(custom->sandbox_id);
	g_free(custom->problem);
	json_decref(custom->record);
	g_free(custom);
}

/* Names */

/* [a-z0-9] and, not first, dots, dashes and low lines; tags may have capitals. */
static gboolean is_word(const char *text, gsize max_bytes, gboolean is_tag)
{
	gsize size = strlen(text);

	if (size == 0 || size > max_bytes)
		return FALSE;
	for (gsize i = 0; i < size; i++) {
		gboolean is_letter = g_ascii_isdigit(text[i]) || g_ascii_islower(text[i]) || (is_tag && g_ascii_isupper(text[i]));

		if (!is_letter && (i == 0 || !strchr("._-", text[i])))
			return FALSE;
	}
	return TRUE;
}

gboolean vial_template_name_split(VialApp *app, const char *field, const char *text, char **out_name, char **out_tag, GError **error)
{
	const char *colon = strchr(text, ':');
	g_autofree char *name = colon ? g_strndup(text, (gsize)(colon - text)) : g_strdup(text);

	if (!is_word(name, NAME_MAX_BYTES, FALSE) || (colon && !is_word(colon + 1, TAG_MAX_BYTES, TRUE)))
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "field \"%s\" must be a name of 1 to %d of a-z, 0-9, '.', '-' and '_', beginning with a letter or digit, and may "
		                 "have a ':' and a "
		                 "tag of the same (and A-Z) after it",
		                 field, NAME_MAX_BYTES);
	if (strcmp(name, "builds") == 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\": \"builds\" is what the builds are called", field);
	if (vial_templates_find_in(app->templates, NULL, name))
		return vial_fail(error, VIAL_ERROR_CONFLICT, "\"%s\" is a template that everybody has; choose another name", name);
	*out_name = g_steal_pointer(&name);
	*out_tag = colon ? g_strdup(colon + 1) : NULL;
	return TRUE;
}

static gboolean has_tag(const VialCustomTemplate *custom, const char *tag, guint *out_index)
{
	for (guint i = 0; i < custom->tags->len; i++) {
		if (strcmp(custom->tags->pdata[i], tag) != 0)
			continue;
		if (out_index)
			*out_index = i;
		return TRUE;
	}
	return FALSE;
}

char *vial_custom_template_name(const VialCustomTemplate *custom)
{
	const char *tag = custom->tags->len > 0 ? custom->tags->pdata[0] : VIAL_LATEST;

	return strcmp(tag, VIAL_LATEST) == 0 ? g_strdup(custom->name) : g_strdup_printf("%s:%s", custom->name, tag);
}

/* The others it goes by. */
static char **make_aliases(const VialCustomTemplate *custom)
{
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
	g_autofree char *own = vial_custom_template_name(custom);

	for (guint i = 0; i < custom->tags->len; i++) {
		g_autofree char *full = g_strdup_printf("%s:%s", custom->name, (char *)custom->tags->pdata[i]);

		if (strcmp(full, own) != 0)
			g_strv_builder_add(builder, full);
	}
	if (has_tag(custom, VIAL_LATEST, NULL) && strcmp(custom->name, own) != 0)
		g_strv_builder_add(builder, custom->name);
	return g_strv_builder_end(builder);
}

void vial_custom_template_set_names(VialTemplate *template, const VialCustomTemplate *custom)
{
	g_free(template->name);
	g_strfreev(template->aliases);
	template->name = vial_custom_template_name(custom);
	template->aliases = make_aliases(custom);
}

VialTemplate *vial_custom_template_live(VialApp *app, const VialCustomTemplate *custom)
{
	GPtrArray *all = vial_templates_all(app->templates);

	for (guint i = 0; i < all->len; i++) {
		VialTemplate *template = all->pdata[i];

		if (g_strcmp0(template->folder, custom->id) == 0)
			return template;
	}
	return NULL;
}

/* Finding */

VialCustomTemplate *vial_custom_templates_find(VialApp *app, const char *project, const char *name)
{
	const char *colon = strchr(name, ':'), *tag = colon ? colon + 1 : VIAL_LATEST;
	gsize size = colon ? (gsize)(colon - name) : strlen(name);
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->custom_templates->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialCustomTemplate *custom = value;

		if (strcmp(custom->project, project) == 0 && strlen(custom->name) == size && strncmp(custom->name, name, size) == 0 &&
		    has_tag(custom, tag, NULL))
			return custom;
	}
	return NULL;
}

VialCustomTemplate *vial_custom_templates_by_id(VialApp *app, const char *id)
{
	return g_hash_table_lookup(app->custom_templates->by_id, id);
}

static int by_name(gconstpointer a, gconstpointer b)
{
	const VialCustomTemplate *left = *(VialCustomTemplate *const *)a, *right = *(VialCustomTemplate *const *)b;
	int order = strcmp(left->name, right->name);

	return order ? order : left->created_at_ms > right->created_at_ms ? -1 : 1;
}

GPtrArray *vial_custom_templates_of(VialApp *app, const char *project)
{
	GPtrArray *list = g_ptr_array_new();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->custom_templates->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (strcmp(((VialCustomTemplate *)value)->project, project) == 0)
			g_ptr_array_add(list, value);
	g_ptr_array_sort(list, by_name);
	return list;
}

guint vial_custom_templates_count(VialApp *app, const char *project, const char *key_id)
{
	g_autoptr(GPtrArray) list = vial_custom_templates_of(app, project);
	guint count = 0;

	for (guint i = 0; i < list->len; i++)
		count += !key_id || strcmp(((VialCustomTemplate *)list->pdata[i])->key_id, key_id) == 0;
	return count;
}

gboolean vial_custom_templates_replaces(VialApp *app, const char *project, const char *name, const char *tag)
{
	g_autofree char *full = tag ? g_strdup_printf("%s:%s", name, tag) : g_strdup(name);
	const VialCustomTemplate *old = vial_custom_templates_find(app, project, full);

	for (guint i = 0; old && i < old->tags->len; i++)
		if (strcmp(old->tags->pdata[i], VIAL_LATEST) != 0 && g_strcmp0(old->tags->pdata[i], tag) != 0)
			return FALSE;
	return old != NULL;
}

VialCustomTemplate *vial_custom_templates_cached(VialApp *app, const char *project, const char *cache_key)
{
	g_autoptr(GPtrArray) list = vial_custom_templates_of(app, project);

	for (guint i = 0; i < list->len; i++) {
		VialCustomTemplate *custom = list->pdata[i];
		g_autofree char *path = custom->layer ? vial_layer_path(app, custom->layer) : NULL;

		if (g_strcmp0(custom->cache_key, cache_key) == 0 &&
		    ((path && g_file_test(path, G_FILE_TEST_IS_REGULAR)) || (custom->snapshot_id && vial_snapshots_by_id(app, custom->snapshot_id))))
			return custom;
	}
	return NULL;
}

const VialCustomTemplate *vial_custom_templates_with_snapshot(VialApp *app, const char *snapshot_id)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->custom_templates->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (g_strcmp0(((VialCustomTemplate *)value)->snapshot_id, snapshot_id) == 0)
			return value;
	return NULL;
}

/* Records */

void vial_custom_template_store(VialApp *app, const VialCustomTemplate *custom, VialStoreDone done, gpointer data)
{
	g_autoptr(json_t) document = json_pack("{s:[], s:s*, s:s*, s:O*, s:O*, s:s*, s:s*, s:I, s:s*, s:s*, s:O*}", "tags", "base", custom->base,
	                                       "base_hash", custom->base_hash, "source", custom->source, "steps", custom->steps, "cache_key",
	                                       custom->cache_key, "layer", custom->layer, "layer_bytes", (json_int_t)custom->layer_bytes, "snapshot",
	                                       custom->snapshot_id, "sandbox", custom->sandbox_id, "template", custom->record);
	g_autofree char *text = NULL;

	for (guint i = 0; i < custom->tags->len; i++)
		json_array_append_new(json_object_get(document, "tags"), json_string(custom->tags->pdata[i]));
	text = vial_json_dump(document);
	vial_store_put_template(app->store,
	                        &(VialTemplateRecord){ .id = custom->id,
	                                               .project = custom->project,
	                                               .key_id = custom->key_id,
	                                               .name = custom->name,
	                                               .document = text,
	                                               .created_at = custom->created_at_ms },
	                        done, data);
}

static char *text_of(const json_t *document, const char *name)
{
	return g_strdup(json_string_value(json_object_get(document, name)));
}

static VialCustomTemplate *from_record(const VialTemplateRecord *record)
{
	g_autoptr(json_t) document = json_loads(record->document, JSON_REJECT_DUPLICATES, NULL);
	VialCustomTemplate *custom;
	json_t *tag;
	gsize i;

	if (!document) {
		vial_log_error("template", "the record of a template cannot be read; it is left as it is", "template_id", record->id);
		return NULL;
	}
	custom = vial_custom_template_new(record->id, record->project, record->key_id, record->name);
	json_array_foreach (json_object_get(document, "tags"), i, tag)
		if (json_is_string(tag))
			g_ptr_array_add(custom->tags, g_strdup(json_string_value(tag)));
	custom->base = text_of(document, "base");
	custom->base_hash = text_of(document, "base_hash");
	custom->source = json_incref(json_object_get(document, "source"));
	custom->steps = json_incref(json_object_get(document, "steps"));
	custom->cache_key = text_of(document, "cache_key");
	custom->layer = text_of(document, "layer");
	custom->layer_bytes = json_integer_value(json_object_get(document, "layer_bytes"));
	custom->snapshot_id = text_of(document, "snapshot");
	custom->sandbox_id = text_of(document, "sandbox");
	custom->record = json_incref(json_object_get(document, "template"));
	custom->created_at_ms = record->created_at;
	return custom;
}

static int newest_record_first(gconstpointer a, gconstpointer b)
{
	const VialTemplateRecord *left = *(VialTemplateRecord *const *)a, *right = *(VialTemplateRecord *const *)b;

	return left->created_at > right->created_at ? -1 : left->created_at < right->created_at;
}

/* A viald that died between two records leaves a tag with both: the newer has it. */
static void drop_taken_tags(VialCustomTemplates *templates, VialCustomTemplate *custom)
{
	GHashTableIter iter;
	gpointer value;
	guint index;

	g_hash_table_iter_init(&iter, templates->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const VialCustomTemplate *newer = value;

		if (strcmp(newer->project, custom->project) != 0 || strcmp(newer->name, custom->name) != 0)
			continue;
		for (guint i = 0; i < newer->tags->len; i++)
			if (has_tag(custom, newer->tags->pdata[i], &index))
				g_ptr_array_remove_index(custom->tags, index);
	}
}

VialCustomTemplates *vial_custom_templates_load(VialApp *app, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_templates(app->store, error);
	VialCustomTemplates *templates;

	if (!records)
		return NULL;
	templates = g_new0(VialCustomTemplates, 1);
	templates->app = app;
	templates->by_id = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)vial_custom_template_free);
	templates->adding = g_ptr_array_new();
	templates->making = g_ptr_array_new();
	templates->doomed = g_ptr_array_new();
	templates->knows_all = TRUE;
	g_ptr_array_sort(records, newest_record_first);
	for (guint i = 0; i < records->len; i++) {
		VialCustomTemplate *custom = from_record(records->pdata[i]);

		if (!custom) {
			templates->knows_all = FALSE;
			continue;
		}
		drop_taken_tags(templates, custom);
		if (custom->tags->len > 0) {
			g_hash_table_insert(templates->by_id, custom->id, custom);
			continue;
		}
		vial_store_delete_template(app->store, custom->id, NULL, NULL);
		vial_custom_template_free(custom);
	}
	return templates;
}

/* Taking places */

typedef struct {
	VialApp *app;
	VialCustomTemplate *custom;
	VialTemplate *template;
	VialStoreDone done;
	gpointer data;
} Adding;

/* Out of the list and the records; its files go when nobody uses them. */
void vial_custom_template_drop(VialApp *app, VialCustomTemplate *custom, VialStoreDone done, gpointer data)
{
	VialTemplate *live = vial_custom_template_live(app, custom);
	g_autofree char *name = live ? g_strdup(live->name) : NULL, *hash = live ? g_strdup(live->hash) : NULL;

	g_hash_table_steal(app->custom_templates->by_id, custom->id);
	vial_store_delete_template(app->store, custom->id, done, data);
	vial_custom_template_doom(app, custom->id, hash, custom->snapshot_id);
	if (live)
		vial_templates_drop(app, custom->project, name);
	vial_custom_template_free(custom);
}

/* The others of its name lose the tags that are its own now; who has none left was replaced. */
static void take_tags(VialApp *app, const VialCustomTemplate *custom)
{
	g_autoptr(GPtrArray) list = vial_custom_templates_of(app, custom->project);

	for (guint i = 0; i < list->len; i++) {
		VialCustomTemplate *other = list->pdata[i];
		guint before = other->tags->len, index;
		VialTemplate *live;

		if (other == custom || strcmp(other->name, custom->name) != 0)
			continue;
		for (guint k = 0; k < custom->tags->len; k++)
			if (has_tag(other, custom->tags->pdata[k], &index))
				g_ptr_array_remove_index(other->tags, index);
		if (other->tags->len == before)
			continue;
		if (other->tags->len == 0) {
			vial_custom_template_drop(app, other, NULL, NULL);
			continue;
		}
		if ((live = vial_custom_template_live(app, other)))
			vial_custom_template_set_names(live, other);
		vial_custom_template_store(app, other, NULL, NULL);
	}
}

static void on_stored(const GError *error, gpointer data)
{
	g_autofree Adding *adding = data;
	VialApp *app = adding->app;

	g_ptr_array_remove(app->custom_templates->adding, adding->custom);
	if (error) {
		vial_custom_template_doom(app, adding->custom->id, NULL, adding->custom->snapshot_id);
		vial_custom_template_free(adding->custom);
		vial_template_free(adding->template);
		adding->done(error, adding->data);
		return;
	}
	take_tags(app, adding->custom);
	g_hash_table_insert(app->custom_templates->by_id, adding->custom->id, adding->custom);
	if (adding->template) {
		vial_custom_template_set_names(adding->template, adding->custom);
		vial_templates_put(app, adding->template);
	}
	adding->done(NULL, adding->data);
	vial_layers_collect(app);
}

void vial_custom_templates_add(VialApp *app, VialCustomTemplate *custom, VialTemplate *template, const char *tag, VialStoreDone done, gpointer data)
{
	Adding *adding = g_new0(Adding, 1);

	*adding = (Adding){ app, custom, template, done, data };
	if (tag && strcmp(tag, VIAL_LATEST) != 0)
		g_ptr_array_add(custom->tags, g_strdup(tag));
	g_ptr_array_add(custom->tags, g_strdup(VIAL_LATEST));
	custom->created_at_ms = vial_time_now_ms();
	g_ptr_array_add(app->custom_templates->adding, custom);
	vial_custom_template_store(app, custom, on_stored, adding);
}

/* Deleting */

static void on_deleted(const GError *error, gpointer data)
{
}

/* `latest` is the newest that is left. */
static void move_latest(VialApp *app, const char *project, const char *name)
{
	g_autoptr(GPtrArray) list = vial_custom_templates_of(app, project);

	for (guint i = 0; i < list->len; i++) {
		VialCustomTemplate *custom = list->pdata[i]; /* newest first within a name */
		VialTemplate *live;

		if (strcmp(custom->name, name) != 0)
			continue;
		if (has_tag(custom, VIAL_LATEST, NULL))
			return;
		g_ptr_array_add(custom->tags, g_strdup(VIAL_LATEST));
		if ((live = vial_custom_template_live(app, custom)))
			vial_custom_template_set_names(live, custom);
		vial_custom_template_store(app, custom, NULL, NULL);
		return;
	}
}

static void delete_tag(VialApp *app, VialCustomTemplate *custom, const char *tag, VialStoreDone done, gpointer data)
{
	g_autofree char *project = g_strdup(custom->project), *name = g_strdup(custom->name);
	VialTemplate *live;
	guint index;

	if (has_tag(custom, tag, &index))
		g_ptr_array_remove_index(custom->tags, index);
	/* With no name of its own left it would only be the latest of nothing. */
	if (custom->tags->len == 1 && strcmp(tag, VIAL_LATEST) != 0 && has_tag(custom, VIAL_LATEST, NULL))
		g_ptr_array_set_size(custom->tags, 0);
	if (custom->tags->len == 0) {
		vial_custom_template_drop(app, custom, done, data);
	} else {
		if ((live = vial_custom_template_live(app, custom)))
			vial_custom_template_set_names(live, custom);
		vial_custom_template_store(app, custom, done, data);
	}
	move_latest(app, project, name);
}

gboolean vial_custom_templates_delete(VialApp *app, const char *project, const char *name, VialStoreDone done, gpointer data, GError **error)
{
	VialCustomTemplate *custom = vial_custom_templates_find(app, project, name);
	g_autoptr(GPtrArray) list = vial_custom_templates_of(app, project);
	g_autofree char *base = NULL;
	const char *colon = strchr(name, ':');

	if (!custom) {
		if (vial_templates_find_in(app->templates, NULL, name))
			return vial_fail(error, VIAL_ERROR_FORBIDDEN,
			                 "\"%s\" is a template that everybody has; only the operator's images can end it", name);
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no template \"%.64s\"", name);
	}
	if (colon) {
		delete_tag(app, custom, colon + 1, done, data);
		vial_layers_collect(app);
		return TRUE;
	}
	base = g_strdup(custom->name);
	for (guint i = 0; i < list->len; i++) {
		VialCustomTemplate *other = list->pdata[i];

		if (other != custom && strcmp(other->name, base) == 0)
			vial_custom_template_drop(app, other, on_deleted, NULL);
	}
	vial_custom_template_drop(app, custom, done, data);
	vial_layers_collect(app);
	return TRUE;
}

/* Other tags */

void vial_custom_template_tag(VialApp *app, VialCustomTemplate *custom, const json_t *tags, VialStoreDone done, gpointer data)
{
	VialTemplate *live = vial_custom_template_live(app, custom);
	const json_t *tag;
	gsize i;

	json_array_foreach ((json_t *)tags, i, tag)
		if (!has_tag(custom, json_string_value(tag), NULL))
			g_ptr_array_add(custom->tags, g_strdup(json_string_value(tag)));
	take_tags(app, custom);
	if (live)
		vial_custom_template_set_names(live, custom);
	vial_custom_template_store(app, custom, done, data);
	vial_layers_collect(app);
}

void vial_custom_template_untag(VialApp *app, VialCustomTemplate *custom, const json_t *tags, VialStoreDone done, gpointer data)
{
	g_autofree char *project = g_strdup(custom->project), *name = g_strdup(custom->name);
	gsize n_tags = json_array_size(tags);

	for (gsize i = 0; i < n_tags; i++) {
		const char *tag = json_string_value(json_array_get(tags, i));
		g_autofree char *full = g_strdup_printf("%s:%s", name, tag);
		VialCustomTemplate *bearer = vial_custom_templates_find(app, project, full);
		gboolean is_last = i + 1 == n_tags;

		if (bearer)
			delete_tag(app, bearer, tag, is_last ? done : NULL, is_last ? data : NULL);
		else if (is_last)
			done(NULL, data);
	}
	if (n_tags == 0)
		done(NULL, data);
	vial_layers_collect(app);
}

guint vial_custom_templates_delete_all(VialApp *app, const char *project)
{
	g_autoptr(GPtrArray) list = vial_custom_templates_of(app, project);

	for (guint i = 0; i < list->len; i++)
		vial_custom_template_drop(app, list->pdata[i], NULL, NULL);
	if (list->len > 0)
		vial_layers_collect(app);
	return list->len;
}
