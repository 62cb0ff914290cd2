/* SPDX-License-Identifier: Apache-2.0 */
#include "api/handlers.h"
#include "service/app.h"
#include "service/template.h"

void vial_api_template_list(VialRequest *request)
{
	VialApp *app = vial_request_app(request);
	GPtrArray *all = vial_templates_all(app->templates);
	json_t *list = json_array();

	for (guint i = 0; i < all->len; i++)
		json_array_append_new(list, vial_template_json(all->pdata[i], app->engine->ops->name));
	vial_request_reply_json(request, 200, list);
}

void vial_api_template_get(VialRequest *request)
{
	VialApp *app = vial_request_app(request);
	const char *name = vial_request_param(request, "name");
	VialTemplate *template = vial_templates_find(app->templates, name);

	if (template)
		vial_request_reply_json(request, 200, vial_template_json(template, app->engine->ops->name));
	else
		vial_request_reply_fail(request, VIAL_ERROR_NOT_FOUND, "there is no template \"%.64s\"", name);
}
