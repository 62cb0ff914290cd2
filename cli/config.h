/* SPDX-License-Identifier: Apache-2.0 */
/* Where viald is and which key to show it: options, then environment, then the files of an installation on this machine. */
#pragma once

#include "cli/cli.h"

/* Takes the options' values (NULL when not given). FALSE with *error for an address or key that cannot be one. */
gboolean vial_config_load(VialCli *cli, const char *url, const char *key, const char *cacert, GError **error);
