/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of something that sandboxes belong to (a project, an agent), in rounds: all of it is deleted, and what comes to be meanwhile (a fork that
 * was under way, a snapshot that was just being taken) in the next round, until a round finds nothing.
 */
#pragma once

#include "service/sandbox.h"
#include "store/store.h"

typedef struct VialEnding VialEnding;

typedef struct {
	const char *what; /* "agent", in sentences and in the log */
	/* FALSE: the owner itself is gone already, and nothing is left to do. May be NULL. */
	gboolean (*still)(gpointer owner);
	gboolean (*owns)(gpointer owner, VialSandbox *sandbox);
	/* Asks for the end of all that is no sandbox (vial_ending_await and _step around what takes time); how much of it there still is. */
	guint (*others)(VialEnding *ending, gpointer owner);
	/* Nothing is left: the owner goes, too. */
	void (*last)(gpointer owner, VialStoreDone done, gpointer data);
	void (*unref)(gpointer owner); /* may be NULL */
} VialEndingKind;

/* `name` is for the log, `done` may be NULL; `owner` is given away. */
VialEnding *vial_ending_new(VialApp *app, const VialEndingKind *kind, const char *name, gpointer owner, VialStoreDone done, gpointer data);
gpointer vial_ending_owner(const VialEnding *ending);
void vial_ending_start(VialEnding *ending);
/* A VialStoreDone with the ending for its data: it is over, well or not, and is freed. */
void vial_ending_over(const GError *error, gpointer data);
void vial_ending_await(VialEnding *ending);
void vial_ending_step(VialEnding *ending);
