/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trial of a checkpoint just written and not yet sealed: a guest is restored from it, does a little, and what memory it touched is noted beside the
 * checkpoint, so that every later restore fetches that in one go. It makes restores faster and nothing else: engines without it, and a trial that
 * fails, only go without the list.
 */
#pragma once

#include "service/boot.h"

/* `spec` is the template's, with `image`. `done` comes once nothing of the trial is left. */
void vial_trial(VialApp *app, const VialBootSpec *spec, void (*done)(gpointer data), gpointer data);
