/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

const VialSyntax vial_undo_syntax = {
	.arguments = "ID",
	.description = "The sandbox is again what it was before the last `vial run --undo` or `vial exec --undo` (or a call of the API with\n"
		       "\"undo\": true), and a second time what it was before the one before. `vial info` tells how many are kept. Prints\n"
		       "the sandbox's id.",
	.min_arguments = 1,
	.max_arguments = 1,
	.completes = "@sandbox",
};

int vial_undo_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	g_autofree char *path = id ? vial_api_path("/sandboxes/%s/undo", id) : NULL;
	if (!id || !vial_api_call(cli, "POST", path, NULL, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(answer);
	else
		puts(id);
	return VIAL_EXIT_OK;
}
