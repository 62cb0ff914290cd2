/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/output.h"

const VialSyntax vial_completion_syntax = {
	.arguments = "bash|zsh|fish",
	.description = "  source <(vial completion bash)\n"
		       "  vial completion zsh > \"${fpath[1]}/_vial\"\n"
		       "  vial completion fish > ~/.config/fish/completions/vial.fish",
	.min_arguments = 1,
	.max_arguments = 1,
	.completes = "bash zsh fish",
};

int vial_completion_run(VialCli *cli, int argc, char **argv)
{
	if (strcmp(argv[0], "bash") == 0)
		vial_help_completion_bash();
	else if (strcmp(argv[0], "zsh") == 0)
		vial_help_completion_zsh();
	else if (strcmp(argv[0], "fish") == 0)
		vial_help_completion_fish();
	else
		return vial_output_usage(cli, "there is no completion for \"%s\", only for bash, zsh and fish", argv[0]);
	return VIAL_EXIT_OK;
}
