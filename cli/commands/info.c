/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"

const VialSyntax vial_info_syntax = {
	.arguments = "ID...",
	.min_arguments = 1,
	.max_arguments = -1,
	.completes = "@sandbox",
};

int vial_info_run(VialCli *cli, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		GError *error = NULL;
		g_autoptr(json_t) sandbox = NULL;
		g_autofree char *id = vial_api_sandbox_id(cli, argv[i], &error);
		g_autofree char *path = id ? vial_api_path("/sandboxes/%s", id) : NULL;
		if (!id || !vial_api_call(cli, "GET", path, NULL, &sandbox, &error))
			return vial_output_fail(cli, error);
		if (i > 0 && !cli->is_json)
			putchar('\n');
		if (cli->is_json)
			vial_output_json(sandbox);
		else
			vial_fields_print(cli, sandbox);
	}
	return VIAL_EXIT_OK;
}
