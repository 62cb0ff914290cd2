/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

static char *name;

static const VialOption options[] = {
	{ 'n', "name", VIAL_OPTION_STRING, &name, "NAME", "a name to find it by", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_snapshot_syntax = {
	.arguments = "ID",
	.description = "Memory, processes and files as they are now; the sandbox goes on. Prints the snapshot's id:\n"
		       "  vial create --from $(vial snapshot 4kq)",
	.options = options,
	.min_arguments = 1,
	.max_arguments = 1,
	.completes = "@sandbox",
};

int vial_snapshot_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) snapshot = NULL;
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	g_autofree char *path = id ? vial_api_path("/sandboxes/%s/snapshots", id) : NULL;
	json_t *body = id && name ? json_pack("{s:s}", "name", name) : NULL;
	if (!id || !vial_api_call(cli, "POST", path, body, &snapshot, &error))
		return vial_output_fail(cli, error);
	g_autofree char *made = vial_api_text(snapshot, "id");
	if (cli->is_json)
		vial_output_json(snapshot);
	else
		puts(made);
	return VIAL_EXIT_OK;
}
