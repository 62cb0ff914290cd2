/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, by the name they have in paths: repl sessions. */
#include "operations/contexts.h"

#include "operations/surface_user.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"

void vial_api_context_create(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	const json_t *body = vial_request_json(request);
	VialContextRequest context = { .user = vial_surface_user(&caller) };
	g_autoptr(GError) error = NULL;

	vial_surface_begun(
		request,
		vial_decode_text(body, "language", &context.language, &error) && vial_decode_text(body, "cwd", &context.cwd, &error) &&
			vial_op_context_create(&caller, vial_surface_sandbox(request), &context, vial_surface_reply_created, request, &error),
		&error);
}

static void reply_list(json_t *document, const GError *error, gpointer data)
{
	vial_surface_reply_ok(json_object_get(document, "contexts"), error, data);
}

void vial_api_context_list(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_context_list(&caller, vial_surface_sandbox(request), reply_list, request, &error), &error);
}

typedef gboolean (*Verb)(const VialCaller *caller, const char *sandbox_id, const char *context, VialDocumentDone done, gpointer data, GError **error);

static void act(VialRequest *request, Verb verb, VialDocumentDone reply)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, verb(&caller, vial_surface_sandbox(request), vial_request_param(request, "sid"), reply, request, &error), &error);
}

void vial_api_context_delete(VialRequest *request)
{
	act(request, vial_op_context_delete, vial_surface_reply_nothing);
}

void vial_api_context_interrupt(VialRequest *request)
{
	act(request, vial_op_context_interrupt, vial_surface_reply_nothing);
}

void vial_api_context_restart(VialRequest *request)
{
	act(request, vial_op_context_restart, vial_surface_reply_ok);
}
