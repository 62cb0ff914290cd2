/* SPDX-License-Identifier: Apache-2.0 */
/* Every handler, in the order of routes.c. */
#pragma once

#include "http/request.h"

void vial_pandastack_template_build(VialRequest *request);
void vial_pandastack_token_list(VialRequest *request);
void vial_pandastack_token_create(VialRequest *request);
void vial_pandastack_token_revoke(VialRequest *request);
void vial_pandastack_no_volumes(VialRequest *request);
