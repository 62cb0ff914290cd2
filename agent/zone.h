/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zone: the pid, mount and IPC namespace of all the guest's programs. Programs cannot see, signal or trace the agent from there, not even as
 * root: in gVisor a root process could otherwise kill pid 1. If guest root kills the zone's init, every program dies with it; the agent
 * says so on their streams and starts a new zone at once. Spawning is spawn.h.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Starts the first zone. `program` is the agent's own file. */
int vial_zone_start(const char *program);
/* For the loop: some child of ours has died. */
void vial_zone_on_child(void);
/* The outer pid of the zone's init, which nobody but the agent may kill; 0 when there is none. */
pid_t vial_zone_init_pid(void);
/* The memory guard has killed this process: whoever's session it belonged to is told so when it exits. */
void vial_zone_mark_oom(pid_t outer_pid, pid_t outer_session);
/* The process guard ends this session: likewise. */
void vial_zone_mark_process_limit(pid_t outer_session);
/* A guard's last resort: every process of the zone ends, and with it what outlives processes (System V shared memory). All are told which guard. */
enum vial_zone_reason { VIAL_ZONE_OUT_OF_MEMORY, VIAL_ZONE_PROCESS_LIMIT };
void vial_zone_restart(enum vial_zone_reason reason);
/* For good: everything in it ends, and nothing can be started any more. Its processes are gone when init is: see vial_zone_has_ended(). */
void vial_zone_end(void);
bool vial_zone_has_ended(void);
/* Somebody may be waiting for an exit again: asks init for signs of life until it is calm (calm.h). */
void vial_zone_hasten(void);
/*
 * How many processes and threads the zone may have. Kept by the pids cgroup, and by RLIMIT_NPROC besides: runsc of 2024 charges a fork to one of its
 * seven cgroup hierarchies at random, so that its pids controller stops only every seventh (tried, and its code says so). The limit per user is exact
 * there. procguard.h keeps a way in for the next command.
 */
void vial_zone_set_process_limit(unsigned limit);
