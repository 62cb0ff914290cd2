/* SPDX-License-Identifier: Apache-2.0 */
/* vial rollback, merge and undo: the sandbox keeps its id and becomes another machine. */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

/* Takes `body`, which may be NULL. */
static int exchange(VialCli *cli, const char *id, const char *verb, json_t *body)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *path = vial_api_path("/sandboxes/%s/%s", id, verb);
	if (!vial_api_call(cli, "POST", path, body, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(answer);
	else
		puts(id);
	return VIAL_EXIT_OK;
}

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
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	if (!id)
		return vial_output_fail(cli, error);
	return exchange(cli, id, "rollback", json_pack("{s:s}", "snapshot", argv[1]));
}

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
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	g_autofree char *winner = id ? vial_api_sandbox_id(cli, argv[1], &error) : NULL;
	if (!winner)
		return vial_output_fail(cli, error);
	return exchange(cli, id, "merge", json_pack("{s:s}", "winner", winner));
}

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
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	if (!id)
		return vial_output_fail(cli, error);
	return exchange(cli, id, "undo", NULL);
}
