/* SPDX-License-Identifier: Apache-2.0 */
/* What a build stands on, and whether that is still what it was. */
#include "service/custom_templates.h"

#include "service/template_private.h"
#include "util/json.h"

static char *content_hash(const VialTemplate *template)
{
	g_autofree char *layers = template->layers ? g_strjoinv(",", template->layers) : g_strdup("");
	g_autofree char *env = template->env ? json_dumps(template->env, JSON_COMPACT | JSON_SORT_KEYS) : g_strdup("{}");
	g_autofree char *start = vial_template_start_key(template);
	g_autofree char *all = g_strdup_printf("%s|%s|%s|%s%s", template->image_hash, layers, env, template->workdir ? template->workdir : "", start);

	return g_compute_checksum_for_string(G_CHECKSUM_SHA256, all, -1);
}

void vial_template_base_clear(VialTemplateBase *base)
{
	g_clear_pointer(&base->template, vial_template_free);
	g_clear_pointer(&base->snapshot_id, g_free);
	g_clear_pointer(&base->hash, g_free);
}

/* As far as a build wants to know: its sandbox is made of the snapshot itself. */
static VialTemplate *template_of_snapshot(const VialSnapshot *snapshot, const char *name)
{
	VialTemplate *template = g_new0(VialTemplate, 1);
	json_t *env = json_object_get(snapshot->facts, "env");

	template->name = g_strdup(name);
	template->limits = vial_snapshot_limits(snapshot);
	template->layers = vial_snapshot_layers(snapshot);
	template->env = env ? json_deep_copy(env) : NULL;
	template->workdir = g_strdup(json_string_value(json_object_get(snapshot->facts, "workdir")));
	template->hold = -1;
	return template;
}

gboolean vial_custom_templates_base(VialApp *app, const char *project, const char *name, VialTemplateBase *out, GError **error)
{
	const VialCustomTemplate *custom = vial_custom_templates_find(app, project, name);
	const VialTemplate *template = vial_templates_find_in(app->templates, project, name);
	const VialSnapshot *snapshot = custom && custom->snapshot_id ? vial_snapshots_by_id(app, custom->snapshot_id) : NULL;

	if (snapshot) {
		*out = (VialTemplateBase){ template_of_snapshot(snapshot, name), g_strdup(snapshot->id), g_strdup(snapshot->id) };
		return TRUE;
	}
	if (template && !(custom && custom->snapshot_id)) { /* an image that is not baked yet has all its files */
		*out = (VialTemplateBase){ vial_template_derive(template), NULL, content_hash(template) };
		out->template->name = g_strdup(template->name);
		return TRUE;
	}
	if (custom)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the template \"%s\" is not ready%s", name,
		                 custom->snapshot_id ? ": its snapshot is gone" : " yet");
	return vial_fail(error, VIAL_ERROR_INVALID, "there is no template \"%.64s\"; GET /v1/templates lists them", name);
}

/* What was in a memory cannot be taken out of it again. */
gboolean vial_template_base_takes_secrets(const VialTemplateBase *base, const json_t *secrets, GError **error)
{
	return !base->snapshot_id || json_object_size(secrets) == 0 ||
	       vial_fail(
		       error, VIAL_ERROR_INVALID,
		       "field \"secrets\": \"%s\" was made out of a sandbox, and what is built on it keeps a memory, where secrets would stay; build "
		       "without them, or on another base",
		       base->template->name);
}

gboolean vial_custom_template_is_stale(VialApp *app, const VialCustomTemplate *custom)
{
	g_auto(VialTemplateBase) base = { 0 };

	if (!custom->base)
		return FALSE;
	return !vial_custom_templates_base(app, custom->project, custom->base, &base, NULL) || g_strcmp0(base.hash, custom->base_hash) != 0;
}
