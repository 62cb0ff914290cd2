/* SPDX-License-Identifier: Apache-2.0 */
/* What there is nothing like here: refused with a sentence, never as if the route were unknown. */
#include "surfaces/e2b/control.h"

void vial_e2b_no_volumes(VialRequest *request)
{
	vial_request_reply_fail(request, VIAL_ERROR_INVALID,
	                        "there are no volumes here yet; keep files in the sandbox, and pause it instead of killing it");
}

void vial_e2b_no_secrets(VialRequest *request)
{
	vial_request_reply_fail(request, VIAL_ERROR_INVALID,
	                        "no secrets are kept here yet; give the sandbox what it needs in envs when it is created");
}
