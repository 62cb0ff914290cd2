/* SPDX-License-Identifier: Apache-2.0 */
/* Between exec.c, exec_collect.c and archive.c. */
#pragma once

#include "operations/exec.h"

/* `max_output_bytes` of each stream are heard, 0: all. `data` is freed by `free_data` (may be NULL) with the operation, also when it is refused. */
VialOperation *vial_exec_start(const VialCaller *caller, const char *sandbox_id, const VialExecRequest *request, gint64 max_output_bytes,
                               const VialExecSink *sink, gpointer data, GDestroyNotify free_data, GError **error);
/* What an agent says at a command's end. */
gboolean vial_exec_read_end(const json_t *result, VialExecEnd *out, GError **error);
