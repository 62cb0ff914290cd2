/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

const VialSyntax vial_merge_syntax = {
	.arguments = "ID WINNER",
	.description = "The sandbox ID goes on with the memory, processes and files of WINNER, usually a fork of it; what it was itself is\n"
		       "gone, and so is the id WINNER, which nobody may be using. Prints the id that is left:\n"
		       "  vial merge 4kq $(vial fork 4kq)",
	.min_arguments = 2,
	.max_arguments = 2,
	.completes = "@sandbox",
};

int vial_merge_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	g_autofree char *winner = id ? vial_api_sandbox_id(cli, argv[1], &error) : NULL;
	g_autofree char *path = id ? vial_api_path("/sandboxes/%s/merge", id) : NULL;
	if (!winner || !vial_api_call(cli, "POST", path, json_pack("{s:s}", "winner", winner), &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(answer);
	else
		puts(id);
	return VIAL_EXIT_OK;
}
