/* SPDX-License-Identifier: Apache-2.0 */
/* The process-count limit of the zone: a pids cgroup that the zone cannot see. */
#pragma once

#include <sys/types.h>

/* Mounts the controller (cgroup v1, else v2) and hides it again. 0 or -errno; without it the zone is not bounded. */
int vial_cgroup_init(void);
void vial_cgroup_set_process_limit(unsigned limit);
int vial_cgroup_add(pid_t pid);
/* Processes and threads in the zone now; -1 when unknown. */
long vial_cgroup_process_count(void);
