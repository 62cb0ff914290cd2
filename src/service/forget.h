/* SPDX-License-Identifier: Apache-2.0 */
/* "Forget everything about user X": his sessions, and what was made out of their sandboxes by hand. Main thread only. */
#pragma once

#include "service/agents.h"

typedef struct {
	guint sessions, sandboxes, snapshots;
} VialForgotten;

typedef void (*VialForgetDone)(const VialForgotten *forgotten, const GError *error, gpointer data);
/*
 * Ends all sessions of `user` in these agents (borrowed) of a project, and deletes the forks and snapshots of their sandboxes; with `is_all` also
 * sandboxes of the project that were made from such snapshots. `done` when nothing is left of what there was.
 */
void vial_user_forget(VialApp *app, const char *project, const GPtrArray *agents, gboolean is_all, const char *user, VialForgetDone done,
                      gpointer data);
