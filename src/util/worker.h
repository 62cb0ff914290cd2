/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking work (disk, child processes, hashing) off the main loop: `work` runs on a small pool of threads, then `done`
 * runs on the main loop with the same data. Submit from any thread.
 */
#pragma once

#include <glib.h>

typedef void (*VialWorkFunc)(gpointer data);

/* `done` may be NULL. */
void vial_worker_run(VialWorkFunc work, VialWorkFunc done, gpointer data);

/* Runs `func` on the main loop soon, at the main loop's ordinary priority. From any thread. */
void vial_main_loop_call(VialWorkFunc func, gpointer data);

/* Waits for every submitted job, so that nothing writes after the daemon said it had stopped. Main thread, at exit. */
void vial_worker_shutdown(void);
