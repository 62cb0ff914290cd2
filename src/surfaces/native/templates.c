/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/templates.h"

#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"

void vial_api_template_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *answer = vial_op_template_list(&caller, &error);

	vial_surface_reply_now(request, answer, error);
}

void vial_api_template_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *answer = vial_op_template_get(&caller, vial_request_param(request, "name"), &error);

	vial_surface_reply_now(request, answer, error);
}

void vial_api_tier_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *answer = vial_op_tier_list(&caller, &error);

	vial_surface_reply_now(request, answer, error);
}
