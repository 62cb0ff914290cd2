/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces: sandboxes that were frozen because nobody used them, which somebody takes up again under conditions of his own, or ends. A space is its
 * sandbox, under the same id; what is not frozen is none.
 */
#pragma once

#include "operations/operation.h"

/* Numbers may be VIAL_UNSAID: as they were. All is borrowed for the call. */
typedef struct {
	gint64 ttl_seconds, idle_seconds;
	gboolean persistent; /* it is frozen again when it is idle; else it ends then */
	json_t *network;     /* NULL: as it was */
} VialSpaceRequest;

/* `done` has the sandbox, awake. What `caller` points to must live until then. */
gboolean vial_op_space_resume(const VialCaller *caller, const char *sandbox_id, const VialSpaceRequest *request, VialSandboxDone done, gpointer data,
                              GError **error);
gboolean vial_op_space_delete(const VialCaller *caller, const char *sandbox_id, VialOperationDone done, gpointer data, GError **error);
