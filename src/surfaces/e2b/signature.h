/* SPDX-License-Identifier: Apache-2.0 */
/* Signed addresses of files: whoever has one may read, or write, that file, until it expires. */
#pragma once

#include "http/request.h"
#include "service/sandbox.h"

/* The sandbox whose token signed the request's query: `sandbox`, or where that is NULL any. NULL with an error: nobody's, or not any more. */
VialSandbox *vial_e2b_signature_check(VialRequest *request, VialSandbox *sandbox, GError **error);
