/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"
#include "cli/commands.h"

const VialSyntax vial_resume_syntax = {
	.arguments = "ID...",
	.min_arguments = 1,
	.max_arguments = -1,
	.completes = "@sandbox",
};

int vial_resume_run(VialCli *cli, int argc, char **argv)
{
	return vial_api_each(cli, "POST", "/sandboxes/%s/resume", argc, argv);
}
