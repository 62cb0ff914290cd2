/* SPDX-License-Identifier: Apache-2.0 */
/* For builds.h: the tags of templates, which one build gets and another one loses. */
#include <string.h>

#include "operations/builds.h"
#include "operations/entry.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/app.h"
#include "service/quota.h"

#define TAGS_MAX 16

gboolean vial_template_tags_check(VialApp *app, const char *name, const json_t *tags, GError **error)
{
	const json_t *tag;
	gsize i;

	if (json_array_size(tags) > TAGS_MAX)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"tags\" has more than %d elements", TAGS_MAX);
	json_array_foreach ((json_t *)tags, i, tag) {
		g_autofree char *full = NULL, *plain = NULL, *split = NULL;

		if (!json_is_string(tag))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"tags[%d]\" must be a string", (int)i);
		full = g_strdup_printf("%s:%s", name, json_string_value(tag));
		if (!vial_template_name_split(app, "tags", full, &plain, &split, error))
			return FALSE;
	}
	return TRUE;
}

typedef struct {
	VialEntry *entry;
	VialOperationDone done;
	gpointer data;
} Tagging;

static void on_tagged(const GError *error, gpointer data)
{
	g_autofree Tagging *tagging = data;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(tagging->entry, error, &unrecorded);
	tagging->done(error, tagging->data);
}

/* The template that is meant, its name without a tag, and that this key is for it. */
static VialCustomTemplate *find(const VialCaller *caller, const char *name, GError **error)
{
	VialCustomTemplate *custom = vial_custom_templates_find(caller->app, caller->principal->project, name);
	g_autoptr(GError) refusal = NULL;

	if (!custom)
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no template \"%.64s\" of this project", name), NULL;
	if (vial_ceiling_template(caller->app, caller->principal, name, &refusal))
		return custom;
	vial_entry_refuse(caller, VIAL_VERB_TEMPLATE_TAG, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return NULL;
}

static Tagging *begin(const VialCaller *caller, const char *field, const char *name, json_t *tags, VialOperationDone done, gpointer data,
                      GError **error)
{
	VialEntry *entry = vial_entry_begin(caller, VIAL_VERB_TEMPLATE_TAG, NULL, json_pack("{s:s, s:O}", "name", name, field, tags), error);
	Tagging *tagging;

	if (!entry)
		return NULL;
	tagging = g_new0(Tagging, 1);
	*tagging = (Tagging){ entry, done, data };
	return tagging;
}

const char *vial_op_template_tag(const VialCaller *caller, const char *name, json_t *tags, VialOperationDone done, gpointer data, GError **error)
{
	VialCustomTemplate *custom;
	Tagging *tagging;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_TAG, NULL, 0, NULL, error) || !(custom = find(caller, name, error)) ||
	    !vial_template_tags_check(caller->app, custom->name, tags, error) || !(tagging = begin(caller, "tags", name, tags, done, data, error)))
		return NULL;
	vial_custom_template_tag(caller->app, custom, tags, on_tagged, tagging);
	return custom->id;
}

gboolean vial_op_template_untag(const VialCaller *caller, const char *name, json_t *tags, VialOperationDone done, gpointer data, GError **error)
{
	VialCustomTemplate *custom;
	Tagging *tagging;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_TAG, NULL, 0, NULL, error) || !(custom = find(caller, name, error)) ||
	    !vial_template_tags_check(caller->app, custom->name, tags, error))
		return FALSE;
	for (gsize i = 0; i < json_array_size(tags); i++) {
		g_autofree char *full = g_strdup_printf("%s:%s", custom->name, json_string_value(json_array_get(tags, i)));

		if (!find(caller, full, error))
			return FALSE;
	}
	if (!(tagging = begin(caller, "removed_tags", name, tags, done, data, error)))
		return FALSE;
	vial_custom_template_untag(caller->app, custom, tags, on_tagged, tagging);
	return TRUE;
}

GPtrArray *vial_op_template_versions(const VialCaller *caller, const char *name, GError **error)
{
	GPtrArray *list;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_READ, NULL, 0, NULL, error) || !find(caller, name, error))
		return NULL;
	list = vial_custom_templates_of(caller->app, caller->principal->project);
	for (guint i = list->len; i > 0; i--)
		if (strcmp(((VialCustomTemplate *)list->pdata[i - 1])->name, name) != 0)
			g_ptr_array_remove_index(list, i - 1);
	return list;
}
