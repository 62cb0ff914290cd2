/* SPDX-License-Identifier: Apache-2.0 */
/* Another machine behind the same id (service/in_place.h). The client may leave; the work goes on. `done` gets the sandbox as it is then. */
#pragma once

#include "operations/operation.h"

/* `snapshot`: an id or a name of the caller's project. */
gboolean vial_op_rollback(const VialCaller *caller, const char *sandbox_id, const char *snapshot, VialSandboxDone done, gpointer data,
                          GError **error);
/* `winner`: the id of another sandbox of the project, which is gone afterwards. */
gboolean vial_op_merge(const VialCaller *caller, const char *sandbox_id, const char *winner, VialSandboxDone done, gpointer data, GError **error);
gboolean vial_op_undo(const VialCaller *caller, const char *sandbox_id, VialSandboxDone done, gpointer data, GError **error);
