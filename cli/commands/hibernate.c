/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"
#include "cli/commands.h"

const VialSyntax vial_hibernate_syntax = {
	.arguments = "ID...",
	.description = "State goes to disk; no process and no memory is left. The next request wakes the sandbox.",
	.min_arguments = 1,
	.max_arguments = -1,
	.completes = "@sandbox",
};

int vial_hibernate_run(VialCli *cli, int argc, char **argv)
{
	return vial_api_each(cli, "POST", "/sandboxes/%s/hibernate", argc, argv);
}
