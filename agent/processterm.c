/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told to a process, and to everyone on its terminal where it has one: the jobs of a shell have groups of their own, so that a signal to the
 * shell's does not reach them, and gVisor tells nobody when the shell is gone or the window has another size.
 */
#include <errno.h>
#include <signal.h>

#include "process.h"
#include "procfs.h"
#include "pty.h"

struct telling {
	pid_t session;
	int signals[2]; /* the second may be 0: none */
};

static bool tell(const struct vial_process *process, void *data)
{
	const struct telling *telling = data;

	for (size_t i = 0; process->session == telling->session && i < 2 && telling->signals[i]; i++)
		kill(process->pid, telling->signals[i]);
	return true;
}

static bool has_terminal(const struct vial_process_run *run)
{
	return run->is_pty && run->outer_pid > 1;
}

static void tell_terminal(const struct vial_process_run *run, int first, int second)
{
	vial_procfs_for_each(tell, &(struct telling){ run->outer_pid, { first, second } });
}

int vial_process_signal(struct vial_process_run *run, int signal)
{
	int result = run->child ? vial_child_signal(run->child, signal, true) : -ESRCH;

	if (result == 0 && signal == SIGKILL && has_terminal(run))
		tell_terminal(run, SIGKILL, 0);
	return result;
}

void vial_process_ask_to_end(struct vial_process_run *run)
{
	/* An interactive shell does not heed SIGTERM. */
	if (has_terminal(run))
		tell_terminal(run, SIGHUP, SIGCONT);
	else
		vial_child_signal(run->child, SIGTERM, true);
	/* A stopped process would not notice. */
	vial_child_signal(run->child, SIGCONT, true);
}

void vial_process_resize(struct vial_process_run *run, unsigned short rows, unsigned short columns)
{
	if (!has_terminal(run) || run->outputs[0].fd < 0)
		return;
	vial_pty_resize(run->outputs[0].fd, rows, columns);
	/* Who is in its foreground gVisor does not say; others ignore it by default. */
	tell_terminal(run, SIGWINCH, 0);
}
