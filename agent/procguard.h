/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for the next command when a fork bomb goes off. The limit of processes is kept by the kernel (zone.h); but a bomb takes every place that
 * becomes free, and long before the limit all of the processor: gVisor knows no priorities, and the next command would wait for a minute and die.
 *
 *   crowd ──▶ stopped ──▶ let go ──▶ left alone        a crowd of workers: it stays as large as it is
 *     │          ▲           │ it multiplies at once, and again when it is let go for the second time
 *     │          └───────────┴──▶ condemned ──▶ killed
 *     └ at the limit, and forks on or is always running ─▲
 *
 * A crowd is a session of which dozens run. It is stopped when a command starts, or when it has grown much from look to look. Who holds the last
 * places quietly is left alone. If no session is to blame at the limit, because each process has made itself one, the zone is restarted.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * A command is about to start. If dozens of processes of one session run all the time, and take the processor from everybody (gVisor knows no
 * priorities), that session is stopped for a moment. Not the caller's own; 0 for none.
 */
void vial_procguard_make_way(pid_t own_session);

/* The command is this one: should it become a crowd itself, it is not paused for its own sake. */
void vial_procguard_spare(pid_t own_session);
void vial_procguard_set_limit(unsigned limit);
/*
 * For the memory guard's regular look. True when another should come soon: the sandbox is near its limit, or has many processes, or many more than
 * before. In the calm (calm.h) many that stay as many are no reason: should they be a bomb, the kernel holds it at the limit, and the next look or
 * the next command finds it.
 */
bool vial_procguard_look(bool is_calm);
/* Whether a command of that user finds places for itself and a few children. */
bool vial_procguard_has_room(uid_t uid);
