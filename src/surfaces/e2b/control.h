/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B's control plane: the handlers of control_routes.c, and what they share. SURFACES: the SDKs decide by the exact success code, by `code` and
 * `message` of an error, and require each field that their generated models require.
 */
#pragma once

#include "http/request.h"
#include "surfaces/shared/surface.h"

json_t *vial_e2b_error_body(const VialRequest *request, unsigned status, const GError *error);

/* Sandboxes as this dialect shows them, new references. */
json_t *vial_e2b_sandbox_json(VialRequest *request, const VialSandbox *sandbox);
json_t *vial_e2b_detail_json(VialRequest *request, const VialSandbox *sandbox);
json_t *vial_e2b_listed_json(VialRequest *request, const VialSandbox *sandbox);

void vial_e2b_get(VialRequest *request);
