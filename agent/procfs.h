/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's own view of /proc, as a descriptor: the mount itself is taken out of the agent's tree, so that no file operation on
 * behalf of the guest can walk into it and from there to the agent's descriptors.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

int vial_procfs_init(void);
int vial_procfs_fd(void);

struct vial_process {
	pid_t pid, parent, session;
	unsigned threads;
	uint64_t rss_kb;
	uint64_t cpu_ms;
	uint64_t reaped_cpu_ms; /* of its children that have ended, and theirs */
	char state;
};
/* What /proc says about one process. 0 or -errno. */
int vial_procfs_read(pid_t pid, struct vial_process *out_process);
/*
 * Calls `fn` for each process there is; it returns false to stop. Gives up after half a second: under a fork bomb every system call may take
 * milliseconds, and the agent has others to serve.
 */
void vial_procfs_for_each(bool (*fn)(const struct vial_process *process, void *data), void *data);
/* Whether this kernel ends a program when memory is gone: gVisor does not, and has no use for a process's oom_score_adj. Asks the mounted /proc. */
bool vial_procfs_has_oom_killer(void);
/* A line "name: N kB" of meminfo; 0 when it is not there. `text` is the file's content. */
uint64_t vial_procfs_meminfo_kb(const char *text, const char *name);
