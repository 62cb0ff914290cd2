/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes as E2B's SDKs make, list, show and end them. */
#include "operations/sandboxes.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"

void vial_e2b_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	VialSandbox *sandbox = vial_op_sandbox_get(&caller, vial_surface_sandbox(request), &error);

	vial_surface_reply_now(request, sandbox ? vial_e2b_detail_json(request, sandbox) : NULL, error);
}
