/* SPDX-License-Identifier: Apache-2.0 */
/* Cgroups that the zone cannot see: one that counts and bounds its processes, and the CPU time of everything. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Mounts the controllers (cgroup v1, else v2) and hides them again. 0 or -errno; without it the zone is not bounded. */
int vial_cgroup_init(void);
void vial_cgroup_set_process_limit(unsigned limit);
int vial_cgroup_add(pid_t pid);
/* Processes and threads in the zone now, its init included; -1 when unknown. */
long vial_cgroup_process_count(void);
/* CPU time used by the sandbox since its start; -1 when unknown. */
int64_t vial_cgroup_cpu_ms(void);
