/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our standard input for a remote command. Little text travels in the request itself; what is large or not UTF-8 is uploaded
 * to a file in the sandbox first, which the command then reads and which is unlinked before it starts.
 */
#pragma once

#include "cli/cli.h"

/* Reads stdin and changes `body` ({"argv":…} or {"cmd":…}) so that the command gets it. */
gboolean vial_stdin_attach(VialCli *cli, const char *sandbox_id, const char *user, json_t *body, GError **error);
