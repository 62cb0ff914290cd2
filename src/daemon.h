/* SPDX-License-Identifier: Apache-2.0 */
/* viald's life from its settings to its end, with the native API and, if there is one, a surface more. */
#pragma once

#include "service/app.h"

/* A surface besides the native one: begun when the daemon listens, stopped before its parts are closed. Main thread only. */
typedef struct {
	gpointer (*start)(VialApp *app, gpointer data, GError **error); /* its state; NULL with an error ends the daemon */
	void (*stop)(gpointer state);
	gpointer data;
} VialSurface;

/* Runs until it is told to stop; the status to exit with. `surface` may be NULL. */
int vial_daemon_run(const VialConfig *config, const VialSurface *surface);
