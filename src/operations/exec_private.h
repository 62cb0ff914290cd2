/* SPDX-License-Identifier: Apache-2.0 */
/* Between exec.c and exec_collect.c. */
#pragma once

#include "operations/exec.h"

/* `data` is freed by `free_data` (may be NULL) with the operation, also when it is refused. */
VialOperation *vial_exec_start(const VialCaller *caller, const char *sandbox_id, const VialExecRequest *request, const VialExecSink *sink,
                               gpointer data, GDestroyNotify free_data, GError **error);
