/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/create_options.h"
#include "cli/output.h"
#include "cli/pty.h"

static char *cwd, *user, *line;

static const VialOption options[] = {
	{ 'c', "command", VIAL_OPTION_STRING, &line, "LINE", "run this line instead of a login shell", NULL },
	{ 'w', "cwd", VIAL_OPTION_STRING, &cwd, "DIR", "in this directory of the sandbox", NULL },
	{ 'u', "user", VIAL_OPTION_STRING, &user, "NAME", "as this user of the sandbox", NULL },
	VIAL_CREATE_OPTIONS,
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_sh_syntax = {
	.arguments = "[ID]",
	.description = "Without an id a sandbox is made for the occasion and removed at the end. Every key goes to the sandbox,\n"
		       "Ctrl-C included; the way out of a terminal that hangs is Enter, then ~ and a dot.",
	.options = options,
	.max_arguments = 1,
	.completes = "@sandbox",
};

int vial_sh_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	if (cli->is_json)
		return vial_output_usage(cli, "a terminal has no JSON form; try `vial exec --json`");
	g_autoptr(VialEphemeral) sandbox = vial_ephemeral_new(cli, argv[0], &error);
	if (!sandbox)
		return vial_output_fail_remote(cli, error);
	VialPtyOptions pty = { .cmd = line, .cwd = cwd, .user = user };
	return vial_pty_run(cli, vial_ephemeral_id(sandbox), &pty);
}
