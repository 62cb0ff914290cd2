/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undo points: the states of a sandbox before its last runs that were asked to keep it. Each is a snapshot (snapshot.h), sealed and recorded like any
 * other, that no list shows and that goes with its sandbox; so they outlive viald, and sleep. There are at most undo_points of a sandbox, of
 * undo_quota_mb in all: the oldest give way. They count among snapshot_quota_mb and the project's max_snapshot_bytes. Going back to one is
 * in_place.h's.
 */
#pragma once

#include "service/snapshot.h"

/* Keeps the state that the sandbox, which must be acquired, is in now. */
void vial_undo_keep(VialSandbox *sandbox, const VialIdentity *principal, VialSnapshotDone done, gpointer data);
guint vial_undo_count(const VialSandbox *sandbox);
/* The newest; NULL if there is none. */
VialSnapshot *vial_undo_last(const VialSandbox *sandbox);
/* One that is of no use: what was to run after it never ran. */
void vial_undo_drop(VialApp *app, VialSnapshot *snapshot);
/* The sandbox is gone. */
void vial_undo_drop_all(VialApp *app, const char *sandbox_id);
/* At start, when all sandboxes are known: those of sandboxes that are no more. */
void vial_undo_drop_strays(VialApp *app);
