/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/pandastack/handlers.h"
#include "surfaces/shared/surface.h"

void vial_pandastack_no_volumes(VialRequest *request)
{
	vial_request_reply_fail(request, VIAL_ERROR_INVALID, VIAL_NO_VOLUMES);
}
