/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

const VialSyntax vial_rollback_syntax = {
	.arguments = "ID SNAPSHOT",
	.description = "The sandbox is again what it was when the snapshot was taken: memory, processes and files. Its id, its settings and\n"
		       "its previews stay; what runs in it ends. The snapshot is given by id or name, and may be another sandbox's of the\n"
		       "same template and size. Prints the sandbox's id.",
	.min_arguments = 2,
	.max_arguments = 2,
	.completes = "@sandbox",
};

int vial_rollback_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	g_autofree char *path = id ? vial_api_path("/sandboxes/%s/rollback", id) : NULL;
	if (!id || !vial_api_call(cli, "POST", path, json_pack("{s:s}", "snapshot", argv[1]), &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(answer);
	else
		puts(id);
	return VIAL_EXIT_OK;
}
