/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another machine behind the same id. The sandbox keeps its id, key, environment, network policy, metadata, clocks, previews, journal and records;
 * its guest is exchanged for one that is restored from a snapshot or an undo point, or for that of another sandbox, which is no more then. What runs
 * in the old machine ends with an error that says why; it is not waited for, since a run that hangs is what one wants to go back from.
 *
 * A sandbox that runs, is paused, sleeps or has failed can be given another machine, and runs afterwards. If it cannot, it stays what it was.
 */
#pragma once

#include "service/sandbox.h"
#include "service/snapshot.h"

/* Back to a snapshot of this sandbox, or of another of the same template and a size that fits. */
void vial_sandbox_rollback(VialSandbox *sandbox, VialSnapshot *snapshot, VialSandboxDone done, gpointer data);
/* Back to the state before the last run that kept it, which is used up; CONFLICT when there is none. */
void vial_sandbox_undo(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
/* The winner's machine, which nobody may be using, becomes this sandbox's. The winner is gone afterwards, with its undo points. */
void vial_sandbox_merge(VialSandbox *sandbox, VialSandbox *winner, VialSandboxDone done, gpointer data);
