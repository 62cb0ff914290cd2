/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"
#include "cli/commands.h"

const VialSyntax vial_pause_syntax = {
	.arguments = "ID...",
	.description = "Processes stand still and use no CPU; memory is kept. Any request to a sandbox that policy paused lets it go on.",
	.min_arguments = 1,
	.max_arguments = -1,
	.completes = "@sandbox",
};

int vial_pause_run(VialCli *cli, int argc, char **argv)
{
	return vial_api_each(cli, "POST", "/sandboxes/%s/pause", argc, argv);
}
