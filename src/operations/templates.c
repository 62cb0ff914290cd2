/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/templates.h"

json_t *vial_op_template_list(const VialCaller *caller, GError **error)
{
	VialApp *app = caller->app;
	GPtrArray *all = vial_templates_all(app->templates);
	json_t *list;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_READ, NULL, 0, NULL, error))
		return NULL;
	list = json_array();
	for (guint i = 0; i < all->len; i++)
		json_array_append_new(list, vial_template_json(all->pdata[i], app->engine->ops->name));
	return list;
}

json_t *vial_op_template_get(const VialCaller *caller, const char *name, GError **error)
{
	VialTemplate *template;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_READ, NULL, 0, NULL, error))
		return NULL;
	template = vial_templates_find(caller->app->templates, name);
	if (template)
		return vial_template_json(template, caller->app->engine->ops->name);
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no template \"%.64s\"", name);
	return NULL;
}
