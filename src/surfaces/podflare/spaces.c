/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces, under the id that their sandbox has. */
#include "operations/spaces.h"

#include "operations/limits.h"
#include "surfaces/podflare/handlers.h"
#include "surfaces/shared/podflare.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

static void on_resumed(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = sandbox ? vial_podflare_sandbox(sandbox) : NULL;

	vial_surface_reply_ok(document, error, data);
}

static gboolean decode(const json_t *body, VialSpaceRequest *out, GError **error)
{
	*out = (VialSpaceRequest){ .ttl_seconds = VIAL_UNSAID, .idle_seconds = VIAL_UNSAID };
	return vial_decode_int(body, "timeout_seconds", &out->ttl_seconds, error) &&
	       vial_decode_int(body, "idle_timeout_seconds", &out->idle_seconds, error) &&
	       vial_decode_bool(body, "persistent", &out->persistent, error) && vial_podflare_decode_egress(body, &out->network, error);
}

void vial_podflare_space_resume(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialSpaceRequest space;

	vial_surface_begun(request,
	                   decode(vial_request_json(request), &space, &error) &&
	                           vial_op_space_resume(&caller, vial_surface_sandbox(request), &space, on_resumed, request, &error),
	                   &error);
	json_decref(space.network);
}

void vial_podflare_space_delete(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_space_delete(&caller, vial_surface_sandbox(request), vial_surface_reply_done, request, &error), &error);
}
