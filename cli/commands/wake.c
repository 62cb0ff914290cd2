/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"
#include "cli/commands.h"

const VialSyntax vial_wake_syntax = {
	.arguments = "ID...",
	.description = "Not needed before a request: that wakes a sandbox by itself.",
	.min_arguments = 1,
	.max_arguments = -1,
	.completes = "@sandbox",
};

int vial_wake_run(VialCli *cli, int argc, char **argv)
{
	return vial_api_each(cli, "POST", "/sandboxes/%s/wake", argc, argv);
}
