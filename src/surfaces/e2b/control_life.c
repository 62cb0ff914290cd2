/* SPDX-License-Identifier: Apache-2.0 */
/* How long a sandbox lives. */
#include "operations/limits.h"
#include "operations/sandboxes.h"
#include "surfaces/e2b/control.h"

static void on_changed(VialSandbox *sandbox, const GError *error, gpointer data)
{
	vial_surface_reply_nothing(NULL, error, data);
}

/* From now on, which may be a shorter time than is left. */
void vial_e2b_timeout(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	VialLifecycleRequest lifecycle = { .ttl_seconds = VIAL_TIMEOUT_DEFAULT_SECONDS, .idle_seconds = VIAL_UNSAID, .persistent = -1 };
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_decode_int(vial_request_json(request), "timeout", &lifecycle.ttl_seconds, &error) &&
	                           vial_op_lifecycle_change(&caller, vial_surface_sandbox(request), &lifecycle, on_changed, request, &error),
	                   &error);
}
