/* SPDX-License-Identifier: Apache-2.0 */
/* Pausing, resuming, hibernating, waking: 204 when it is so. */
#include "operations/sandboxes.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"

static void act(VialRequest *request, VialVerb verb)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_power(&caller, verb, vial_surface_sandbox(request), vial_surface_reply_done, request, &error), &error);
}

void vial_api_pause(VialRequest *request)
{
	act(request, VIAL_VERB_PAUSE);
}

void vial_api_resume(VialRequest *request)
{
	act(request, VIAL_VERB_RESUME);
}

void vial_api_hibernate(VialRequest *request)
{
	act(request, VIAL_VERB_HIBERNATE);
}

void vial_api_wake(VialRequest *request)
{
	act(request, VIAL_VERB_WAKE);
}
