/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a whole session: everything that one command or kernel has started, except what made itself a session of its own. */
#pragma once

#include <sys/types.h>

/* Kills it, and looks again for a while: a process that was being forked at that moment gets away. As the agent's /proc knows it. */
void vial_session_kill(pid_t outer_session);
/* To its leader's group, which is where a program's children are unless they want otherwise; again and again, for the same reason. */
void vial_session_signal(pid_t outer_session, int signal);
