/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consistent checkpoint of a running sandbox: its agent stops on a frame boundary, the engine writes everything down, and
 * the agent goes on as if nothing had happened. All snapshots, forks and hibernations are this.
 */
#pragma once

#include "service/sandbox.h"

typedef void (*VialFreezeDone)(const GError *error, gpointer data);

/*
 * A checkpoint into `image` (made, 0700), as a transition of its own: the guest runs again when `done` is called.
 */
void vial_freeze(VialSandbox *sandbox, const char *image, VialFreezeDone done, gpointer data);
/* The same with something else than a checkpoint done at the frozen instant: `act` calls `acted` with its outcome, and the guest goes on. */
typedef void (*VialFreezeAct)(VialInstance *instance, VialCallDone acted, gpointer acted_data, gpointer data);
void vial_freeze_for(VialSandbox *sandbox, VialFreezeAct act, VialFreezeDone done, gpointer data);
/* After a restart: a HELLO of its own generation lets a guest go on that may have been left frozen, and proves it well. */
void vial_thaw(VialSandbox *sandbox, VialFreezeDone done, gpointer data);

/*
 * Steps of a transition that is under way already. run() leaves the guest frozen when it succeeds, for a caller that is about to stop it; after a
 * failure it runs again, or is lost. thaw() lets it go on.
 */
void vial_freeze_run(VialSandbox *sandbox, const char *image, VialFreezeDone done, gpointer data);
void vial_freeze_thaw(VialSandbox *sandbox, VialFreezeDone done, gpointer data);

/* From the sandbox's instance. */
void vial_freeze_on_frozen(VialSandbox *sandbox);
void vial_freeze_on_ended(VialSandbox *sandbox);
