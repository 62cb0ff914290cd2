/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a slot's rules while it is in use: a new policy, an answered address that is opened. The kernel's part is done on VIAL_LANE_NET, one
 * change of a slot after the other, each made from what the one before it left; the main thread only writes the commands and takes note of the
 * outcome. Whoever asked hears when it is in force, not before. Main thread.
 */
#pragma once

#include "net/internal.h"

typedef struct VialNetChange VialNetChange;

/*
 * Opens `addresses` (VialAddress) as `name` for a while. `done` may be called before this returns: then nothing had to be changed. Else *out_change
 * is the change as long as it is under way, and NULL again when `done` is called.
 */
void vial_net_change_pin(VialNetSlot *slot, const char *name, const GArray *addresses, guint ttl_seconds, VialNetChange **out_change,
                         VialNetDone done, gpointer data);
/* Whoever asked has gone: `done` is not called. The change itself goes on. Accepts NULL. */
void vial_net_change_forget(VialNetChange *change);

/* TRUE when none is under way or waiting. Else the slot is discarded (net.c) after the one under way, and those that wait fail now. */
gboolean vial_net_changes_stop(VialNetSlot *slot);
