/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, forks and the choice among them. The client may leave; the work goes on. VialSnapshot is service/snapshot.h's. */
#pragma once

#include "operations/operation.h"
#include "service/fork.h"
#include "service/snapshot.h"

/* `name` may be NULL. */
gboolean vial_op_snapshot_take(const VialCaller *caller, const char *sandbox_id, const char *name, VialSnapshotDone done, gpointer data,
                               GError **error);
/* The caller's, newest first, only of that sandbox unless it is NULL; elements are borrowed. NULL with an error. */
GPtrArray *vial_op_snapshot_list(const VialCaller *caller, const char *sandbox_id, GError **error);
/* By id or name; borrowed. */
VialSnapshot *vial_op_snapshot_get(const VialCaller *caller, const char *id_or_name, GError **error);
/* For the files of this folder: the caller's, and one that its key may touch; a refusal is recorded. Borrowed. */
VialSnapshot *vial_operation_snapshot(const VialCaller *caller, VialVerb verb, const char *id_or_name, GError **error);
gboolean vial_op_snapshot_delete(const VialCaller *caller, const char *id_or_name, VialOperationDone done, gpointer data, GError **error);

typedef struct {
	gint64 count;     /* of children; required */
	json_t *metadata; /* of the children, instead of the parent's; NULL: the parent's */
	/* They live that long only, unless they are promoted, so that whoever forgets them leaves nothing behind; 0 or VIAL_UNSAID: as their parent.
	 */
	gint64 trial_seconds;
	gint64 ttl_seconds; /* of the children, instead of the parent's; VIAL_UNSAID: as their parent */
} VialForkRequest;

gboolean vial_op_fork(const VialCaller *caller, const char *sandbox_id, const VialForkRequest *request, VialForkDone done, gpointer data,
                      GError **error);

/* Keeps this one of a tree, and with `cleanup_siblings` deletes the others. `tree_id` NULL: its own. {winner, tree_id, deleted, failures} */
gboolean vial_op_promote(const VialCaller *caller, const char *sandbox_id, const char *tree_id, gboolean cleanup_siblings, VialPromoteDone done,
                         gpointer data, GError **error);
