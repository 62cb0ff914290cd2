/* SPDX-License-Identifier: Apache-2.0 */
/* See session.h. */
#include "session.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "loop.h"
#include "procfs.h"

#define SWEEP_MS 20
#define MAX_SWEEPS 50
/* A fork bomb outruns a walk through /proc, but not this: each call ends all but those that were just being forked. */
#define SHOTS 32

void vial_session_signal(pid_t outer_session, int signal)
{
	for (int shot = 0; outer_session > 1 && shot < SHOTS && kill(-outer_session, signal) == 0; shot++)
		sched_yield();
}

struct sweep {
	struct vial_timer timer;
	pid_t session;
	unsigned rounds;
	bool has_found;
};

static bool kill_member(const struct vial_process *process, void *data)
{
	struct sweep *sweep = data;

	if (process->session == sweep->session && process->state != 'Z') {
		kill(process->pid, SIGKILL);
		sweep->has_found = true;
	}
	return true;
}

static void sweep_again(struct vial_timer *timer, void *data)
{
	struct sweep *sweep = data;

	sweep->has_found = false;
	vial_session_signal(sweep->session, SIGKILL);
	vial_procfs_for_each(kill_member, sweep);
	if (sweep->has_found && ++sweep->rounds < MAX_SWEEPS)
		vial_timer_set(&sweep->timer, SWEEP_MS, sweep_again, sweep);
	else
		free(sweep);
}

void vial_session_kill(pid_t outer_session)
{
	struct sweep *sweep = outer_session > 1 ? calloc(1, sizeof(*sweep)) : NULL;

	if (!sweep)
		return;
	sweep->session = outer_session;
	sweep_again(&sweep->timer, sweep);
}
