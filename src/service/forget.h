/* SPDX-License-Identifier: Apache-2.0 */
/* "Forget everything about user X": his sessions, and what was made out of their sandboxes and has his memory. Main thread only. */
#pragma once

#include "service/agents.h"

typedef struct {
	guint sessions, sandboxes, snapshots;
} VialForgotten;

typedef void (*VialForgetDone)(const VialForgotten *forgotten, const GError *error, gpointer data);
/*
 * Ends all sessions of `user` in these agents (borrowed) of a project, and deletes the forks and snapshots of their sandboxes, templates that are
 * such snapshots, and others' sessions that began with them; with `is_all` also the project's own sandboxes that were made from such snapshots.
 * `done` when nothing is left of what there was; TIMEOUT when something still is after some minutes.
 */
void vial_user_forget(VialApp *app, const char *project, const GPtrArray *agents, gboolean is_all, const char *user, VialForgetDone done,
                      gpointer data);
