/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

static char *signal_name;

static const VialOption options[] = {
	{ 's', "signal", VIAL_OPTION_STRING, &signal_name, "NAME", "which signal; TERM if not given", "TERM KILL INT HUP QUIT USR1 USR2 STOP CONT" },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_kill_syntax = {
	.arguments = "ID PID...",
	.description = "`vial ps ID` shows the process ids.",
	.options = options,
	.min_arguments = 2,
	.max_arguments = -1,
	.completes = "@sandbox",
};

int vial_kill_run(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	GError *error = NULL;
	for (int i = 1; i < argc; i++)
		if (!g_ascii_string_to_unsigned(argv[i], 10, 1, G_MAXINT32, NULL, NULL))
			return vial_output_usage(cli, "\"%s\" is not a process id", argv[i]);
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	if (!id)
		return vial_output_fail(cli, error);
	g_autofree char *name = g_ascii_strup(signal_name ? signal_name : "TERM", -1);
	const char *bare = g_str_has_prefix(name, "SIG") ? name + 3 : name;
	for (int i = 1; i < argc; i++) {
		g_autofree char *path = vial_api_path("/sandboxes/%s/processes/%s/signal", id, argv[i]);
		error = NULL;
		if (!vial_api_call(cli, "POST", path, json_pack("{s:s}", "signal", bare), NULL, &error))
			status = vial_output_fail(cli, error);
		else if (cli->is_json)
			printf("{\"pid\": %s, \"signal\": \"%s\"}\n", argv[i], bare);
	}
	return status;
}
