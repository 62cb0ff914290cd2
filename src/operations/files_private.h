/* SPDX-License-Identifier: Apache-2.0 */
/* Between files.c, transfer.c and watch.c. */
#pragma once

#include "operations/files.h"
#include "operations/guest.h"

/* What a record says of it. */
json_t *vial_file_record(const VialFileRequest *request);
/* Admits, checks path and user, and begins the question; NULL with an error. */
json_t *vial_file_question(const VialCaller *caller, VialVerb verb, const char *sandbox_id, const char *op, const VialFileRequest *request,
                           VialSandbox **out_sandbox, GError **error);
