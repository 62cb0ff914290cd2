/* SPDX-License-Identifier: Apache-2.0 */
/* A command's output as it comes, and its exit status as ours. Behind `vial exec` and `vial attach`. */
#pragma once

#include "cli/cli.h"

/* Follows a stream of stdout, stderr and exit events to its end; `body` is consumed. Returns the exit status. */
int vial_exec_stream(VialCli *cli, const char *method, const char *path, json_t *body, gboolean is_raw);
/* The status for a command that has ended like this: an answer of exec, or a stream's last event. What its status does not say is noted. */
int vial_exec_status(VialCli *cli, const json_t *end);
