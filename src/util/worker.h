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

/* Waits, at most some seconds, until no job is under way, and runs each one's `done`. Main thread, at exit, in place of the loop. */
void vial_worker_settle(void);

/*
 * Settles and takes no more: every job is over and its `done` has run, so that nothing writes after the daemon said it had stopped and what a
 * job made is given back. Main thread, at exit, in place of the loop.
 */
void vial_worker_shutdown(void);
