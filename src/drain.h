/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping in good order: no new connections and no new sandboxes; the requests that are being answered get some seconds; the pool is given back,
 * what is being baked is given up; then the sandboxes are left running for the next viald, or ended (persistent ones hibernate).
 *
 * It always comes to an end: when nothing has moved for too long, whatever still hangs is left as it is, as after a crash. Main thread.
 */
#pragma once

#include "http/server.h"
#include "service/app.h"

/* `is_complete` is FALSE when something hung: then parts of the daemon are still in use and must not be freed. */
typedef void (*VialDrained)(gboolean is_complete, gpointer data);

/* Once, when the sandboxes are adopted or there are none yet. `server` is NULL when nobody was listened to yet. */
void vial_drain(VialApp *app, VialServer *server, gboolean ends_sandboxes, VialDrained done, gpointer data);
