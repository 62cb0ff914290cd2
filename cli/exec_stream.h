/* SPDX-License-Identifier: Apache-2.0 */
/* A command's output as it comes, and its exit status as ours. Behind `vial exec` and `vial attach`. */
#pragma once

#include "cli/cli.h"

/* Follows a stream of stdout, stderr and exit events to its end; `body` is consumed. Returns the exit status. */
int vial_exec_stream(VialCli *cli, const char *method, const char *path, json_t *body, gboolean is_raw);
/* The status for a command that has ended. */
int vial_exec_status(VialCli *cli, gboolean has_timed_out, gint64 exit_code);
