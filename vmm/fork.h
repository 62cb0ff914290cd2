/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork is fork(2): the child process has the guest's memory copy-on-write, makes a new KVM VM over the same addresses, loads what the parent's
 * vCPUs held, and goes on as a machine of its own. Parent and children are cut at one instant, memory and disk alike.
 */
#pragma once

#include <sys/types.h>

#include "machine.h"

struct vial_fork_child {
	int listen_fd;
	int overlay_fds[VIAL_MAX_DISKS]; /* by writable disk, in order */
	int tap_fd;
	int exit_fd; /* -1: none */
};

/*
 * The machine is parked, its disks already frozen; `state` was saved just now. The pid in the parent, 0 in the child (see fork_become), or
 * -errno.
 */
pid_t vial_fork(void);
/* In the child: everything that must not be shared with the parent is made anew. Ends parked, with threads. 0 or -errno. */
int vial_fork_become(struct vial_machine *machine, const struct vial_state_writer *state, const struct vial_fork_child *child,
                     const char **out_error);
/* Freezes each writable disk and puts the next of `fds` on top; those it took over become -1. */
int vial_fork_freeze_disks(struct vial_machine *machine, int *fds);
/* vCPUs and VM only: the devices' state is in the memory that fork(2) copies. */
int vial_fork_save(struct vial_machine *machine, struct vial_state_writer *writer);
