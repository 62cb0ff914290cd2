/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/templates.h"

#include "service/capacity.h"
#include "service/custom_templates.h"
#include "service/quota.h"
#include "util/tier.h"

/* Everybody's, then the project's own. */
json_t *vial_op_template_list(const VialCaller *caller, GError **error)
{
	VialApp *app = caller->app;
	GPtrArray *all = vial_templates_all(app->templates);
	g_autoptr(GPtrArray) own = NULL;
	json_t *list;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_READ, NULL, 0, NULL, error))
		return NULL;
	list = json_array();
	for (guint i = 0; i < all->len; i++)
		if (!((VialTemplate *)all->pdata[i])->project)
			json_array_append_new(list, vial_template_json(all->pdata[i], app->engine->ops->name));
	own = vial_custom_templates_of(app, caller->principal->project);
	for (guint i = 0; i < own->len; i++)
		json_array_append_new(list, vial_custom_template_json(app, own->pdata[i], FALSE));
	return list;
}

json_t *vial_op_template_get(const VialCaller *caller, const char *name, GError **error)
{
	const VialCustomTemplate *custom;
	VialTemplate *template;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_READ, NULL, 0, NULL, error))
		return NULL;
	custom = vial_custom_templates_find(caller->app, caller->principal->project, name);
	if (custom)
		return vial_custom_template_json(caller->app, custom, TRUE);
	template = vial_templates_find_in(caller->app->templates, NULL, name);
	if (template)
		return vial_template_json(template, caller->app->engine->ops->name);
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no template \"%.64s\"", name);
	return NULL;
}

static json_t *tier_json(const VialCaller *caller, const VialTier *tier)
{
	VialLimits limits = { .cpu = tier->cpu, .memory_mb = tier->memory_mb };
	g_autoptr(GError) refusal = NULL;
	gboolean is_available =
		vial_capacity_possible(caller->app, &limits, &refusal) && vial_ceiling_size(caller->app, caller->principal, &limits, &refusal);

	return json_pack("{s:s, s:f, s:I, s:b, s:s?}", "name", tier->name, "cpu", tier->cpu, "memory_mb", (json_int_t)tier->memory_mb, "available",
	                 is_available, "reason", refusal ? refusal->message : NULL);
}

json_t *vial_op_tier_list(const VialCaller *caller, GError **error)
{
	json_t *list;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_READ, NULL, 0, NULL, error))
		return NULL;
	list = json_array();
	for (gsize i = 0; i < VIAL_N_TIERS; i++)
		json_array_append_new(list, tier_json(caller, &vial_tiers[i]));
	return list;
}
