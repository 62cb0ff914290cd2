/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/output.h"

static gboolean is_manpage;

static const VialOption options[] = {
	{ 0, "man", VIAL_OPTION_FLAG, &is_manpage, NULL, "print the man page, in roff", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_help_syntax = {
	.arguments = "[COMMAND [VERB]]",
	.options = options,
	.max_arguments = 2,
	.completes = "@command",
};

int vial_help_run(VialCli *cli, int argc, char **argv)
{
	if (is_manpage) {
		vial_help_manpage();
		return VIAL_EXIT_OK;
	}
	if (argc == 0) {
		vial_help_overview(cli);
		return VIAL_EXIT_OK;
	}
	const VialCommand *command = vial_command_find(argv[0]);
	if (!command) {
		cli->command = NULL;
		return vial_help_unknown(cli, argv[0]);
	}
	const VialVerb *verb = argc > 1 && *argv[1] ? vial_verb_find(command, argv[1]) : NULL;
	if (argc > 1 && !verb)
		return vial_output_usage(cli, "there is no `vial %s %s`", command->name, argv[1]);
	vial_help_command(cli, command, verb);
	return VIAL_EXIT_OK;
}
