/* SPDX-License-Identifier: Apache-2.0 */
/* Between run.c and run_collect.c: what the guest is told to keep to, so that it spills what the answer would leave out. */
#pragma once

#include "operations/run.h"

typedef struct {
	gint64 default_output_bytes, max_output_bytes; /* of each of stdout and stderr */
	gint64 max_results_bytes;                      /* of all results together */
} VialRunBudget;

/* `data` is freed by `free_data` (may be NULL) with the operation, also when it is refused. */
VialOperation *vial_run_start(const VialCaller *caller, const char *sandbox_id, const VialRunRequest *request, const VialRunBudget *budget,
                              const VialRunSink *sink, gpointer data, GDestroyNotify free_data, GError **error);
