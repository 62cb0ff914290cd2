/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints (baked-*) and runtimes (runtime-*) of older builds in images_dir, which several installations may share. Who
 * uses a folder holds a shared lock on it and touches it; an installation leaves its data directory's name in
 * images_dir/users, because its sleeping sandboxes and its snapshots need their runtime also while no viald runs.
 */
#pragma once

#include "service/app.h"

/* Opens and locks a folder that is in use, for as long as the fd is open. -1 when it is not there. Blocks; any thread. */
int vial_images_hold(const char *path);

/*
 * Removes, on a worker, what nothing refers to: no lock, no sandbox or snapshot of any installation that uses these images,
 * and not used for a day, so that going back and forth between two builds does not mean baking each time. Once, at start.
 */
void vial_images_prune(VialApp *app);
