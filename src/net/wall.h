/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who still needs the host's wall (table inet vial_host), which all daemons of a machine share: every living one holds a
 * shared lock, and the last to go takes it down, unless sandboxes outlive it.
 */
#pragma once

#include <glib.h>

/* Before the wall is raised; held until the process ends. */
gboolean vial_wall_enter(GError **error);
/* At the very end, when removed slots are gone. */
void vial_wall_leave(void);
