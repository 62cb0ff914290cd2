/* SPDX-License-Identifier: Apache-2.0 */
/* POST …/rollback, …/merge and …/undo: another machine behind the same id. The answer is the sandbox. */
#include "operations/in_place.h"

#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

static void on_done(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = sandbox ? vial_sandbox_json(sandbox) : NULL;

	vial_surface_reply_ok(document, error, data);
}

void vial_api_rollback(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	const char *snapshot = NULL;

	vial_surface_begun(request,
	                   vial_decode_text(vial_request_json(request), "snapshot", &snapshot, &error) &&
	                           vial_op_rollback(&caller, vial_surface_sandbox(request), snapshot, on_done, request, &error),
	                   &error);
}

void vial_api_merge(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	const char *winner = NULL;

	vial_surface_begun(request,
	                   vial_decode_text(vial_request_json(request), "winner", &winner, &error) &&
	                           vial_op_merge(&caller, vial_surface_sandbox(request), winner, on_done, request, &error),
	                   &error);
}

void vial_api_undo(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_undo(&caller, vial_surface_sandbox(request), on_done, request, &error), &error);
}
