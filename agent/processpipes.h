/* SPDX-License-Identifier: Apache-2.0 */
/* What a process and the agent talk through: three pipes, or a terminal. */
#pragma once

#include "process.h"

/* Our ends go into `run`, the process's into fds. 0 or -errno; what was opened until then stays open in either. */
int vial_process_pipes_open(struct vial_process_run *run, const struct vial_process_options *options, int fds[3]);
