/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal in a sandbox, joined to ours; the WebSocket contract is in docs/cli.md. Behind `vial sh` and `vial exec -t`. */
#pragma once

#include "cli/cli.h"

typedef struct {
	const char *cmd;        /* a shell line; NULL: the user's shell */
	const char *cwd, *user; /* NULL: the sandbox's default */
} VialPtyOptions;

/* Returns the remote exit status, or an error has been printed and the status says so. */
int vial_pty_run(VialCli *cli, const char *sandbox_id, const VialPtyOptions *options);
