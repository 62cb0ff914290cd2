/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/exec_stream.h"
#include "cli/output.h"

static gboolean is_raw;

static const VialOption options[] = {
	{ 0, "raw", VIAL_OPTION_FLAG, &is_raw, NULL, "let escape sequences through to our terminal", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_attach_syntax = {
	.arguments = "ID PID",
	.description = "Shows what a process started with `vial exec --background` printed last, then what it prints, until it ends; its\n"
		       "status becomes ours. Ctrl-C leaves it running.",
	.options = options,
	.min_arguments = 2,
	.max_arguments = 2,
	.completes = "@sandbox",
};

int vial_attach_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	if (!g_ascii_string_to_unsigned(argv[1], 10, 1, G_MAXINT32, NULL, NULL))
		return vial_output_usage(cli, "\"%s\" is not a process id", argv[1]);
	if (cli->is_json)
		return vial_output_usage(cli, "a stream has no JSON form; try `vial ps --all --json`");
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	if (!id)
		return vial_output_fail_remote(cli, error);
	g_autofree char *path = vial_api_path("/sandboxes/%s/processes/%s/attach", id, argv[1]);
	return vial_exec_stream(cli, "GET", path, NULL, is_raw);
}
