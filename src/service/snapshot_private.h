/* SPDX-License-Identifier: Apache-2.0 */
/* Between snapshot.c and undo.c. */
#pragma once

#include "service/snapshot.h"

struct VialSnapshots {
	GHashTable *by_id;
	GPtrArray *being_taken; /* borrowed: their names are taken already */
	GHashTable *undo;       /* a sandbox's id -> its undo points, oldest first; borrowed */
	gint64 last_sequence;   /* of all undo points */
};

/* Takes one: with a name (may be NULL), or as an undo point. */
void vial_snapshot_begin(VialSandbox *sandbox, const VialIdentity *principal, const char *name, gboolean is_undo, VialSnapshotDone done,
                         gpointer data);
/* What all of them take. */
gint64 vial_snapshots_size(VialApp *app);
/* Its record; `done` may be NULL. */
void vial_snapshot_store(VialApp *app, const VialSnapshot *snapshot, VialStoreDone done, gpointer data);
/* Out of the tables, and its folder with it; its record is the caller's affair. */
void vial_snapshot_forget(VialApp *app, VialSnapshot *snapshot);

/* The ring hears of an undo point that is there now, or no more. */
void vial_undo_added(VialSnapshots *snapshots, VialSnapshot *snapshot);
void vial_undo_removed(VialSnapshots *snapshots, VialSnapshot *snapshot);
/* May the sandbox keep one at all; one of that size, for which its oldest give way? */
gboolean vial_undo_may_keep(VialSandbox *sandbox, const VialIdentity *principal, GError **error);
gboolean vial_undo_make_room(VialSandbox *sandbox, const VialIdentity *principal, gint64 size_bytes, GError **error);
/* One more is recorded. It goes again, with an error, when its sandbox is gone. */
gboolean vial_undo_settle(VialSandbox *sandbox, GError **error);
/* The oldest give way; not to be called while somebody still looks at one that he does not hold. */
void vial_undo_trim(VialSandbox *sandbox);
/* Once at start: by sandbox, in their order. */
void vial_undo_load(VialSnapshots *snapshots);
