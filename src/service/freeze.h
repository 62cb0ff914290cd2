/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consistent checkpoint of a running sandbox: its agent stops on a frame boundary, the engine writes everything down, and
 * the agent goes on as if nothing had happened. All snapshots, forks and hibernations are this.
 */
#pragma once

#include "service/sandbox.h"

typedef void (*VialFreezeDone)(const GError *error, gpointer data);

/*
 * Writes a checkpoint into `image` (made, 0700). With `stays_frozen` a success leaves the guest frozen, for a caller that
 * is about to stop it; in every other case the guest runs again when `done` is called. Two at once take turns.
 */
void vial_freeze(VialSandbox *sandbox, const char *image, gboolean stays_frozen, VialFreezeDone done, gpointer data);
/*
 * The same with something else than a checkpoint done at the frozen instant: `act` calls `acted` with its outcome, and the guest goes on.
 */
typedef void (*VialFreezeAct)(VialInstance *instance, VialCallDone acted, gpointer acted_data, gpointer data);
void vial_freeze_for(VialSandbox *sandbox, VialFreezeAct act, VialFreezeDone done, gpointer data);
/* Lets a guest that stayed frozen go on. */
void vial_thaw(VialSandbox *sandbox, VialFreezeDone done, gpointer data);

/* From the sandbox's instance. */
void vial_freeze_on_frozen(VialSandbox *sandbox);
void vial_freeze_on_ended(VialSandbox *sandbox);
