/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking work (disk, child processes, hashing) off the main loop: `work` runs on a thread of its lane, then `done` runs on the main loop with the
 * same data. Submit from any thread.
 *
 * A lane is a small pool of threads of its own, so that what may take long never stands in front of what somebody waits for: ten sweeps that wait for
 * their processes to die hold up no boot, and a boot that reads a large image holds up no network policy.
 */
#pragma once

#include <glib.h>

typedef void (*VialWorkFunc)(gpointer data);

typedef enum {
	VIAL_LANE_BULK,  /* as long as the disk takes: sealing, pruning, removing trees */
	VIAL_LANE_BOOT,  /* what a client who wants a sandbox waits for: folders, groups, the check of an image */
	VIAL_LANE_WAIT,  /* waits for others, up to ten seconds: sweeping up after a sandbox */
	VIAL_LANE_LIMIT, /* a sandbox's limits: kernel files, which wait for the kernel's locks */
	VIAL_LANE_NET,   /* one thread, so first in, first out: rules and connections of the network */
	VIAL_LANE_QUERY, /* one thread with a connection of its own: questions to the audit */
	VIAL_LANE_COUNT,
} VialLane;

/* `done` may be NULL. Jobs of one lane begin in the order in which they were given; only those with one thread also end them in it. */
void vial_worker_run_in(VialLane lane, VialWorkFunc work, VialWorkFunc done, gpointer data);
/* In VIAL_LANE_BULK. */
void vial_worker_run(VialWorkFunc work, VialWorkFunc done, gpointer data);

/* Runs `func` on the main loop soon, at the main loop's ordinary priority. From any thread. */
void vial_main_loop_call(VialWorkFunc func, gpointer data);

/* Waits until no job is under way, or none has ended for some seconds, and runs each one's `done`. Main thread, at exit, in place of the loop. */
void vial_worker_settle(void);

/*
 * Settles and takes no more: every job is over and its `done` has run, so that nothing writes after the daemon said it had stopped and what a
 * job made is given back. Main thread, at exit, in place of the loop.
 */
void vial_worker_shutdown(void);
