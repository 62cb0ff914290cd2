/* SPDX-License-Identifier: Apache-2.0 */
/* Help, man page and completion, all made from the command table. */
#pragma once

#include "cli/cli.h"

void vial_help_overview(VialCli *cli);
/* `verb` NULL: the whole command. */
void vial_help_command(VialCli *cli, const VialCommand *command, const VialVerb *verb);
/* "there is no command X; did you mean Y?" on stderr; returns the exit status. */
int vial_help_unknown(VialCli *cli, const char *word);
void vial_help_manpage(void);
void vial_help_completion_bash(void);
void vial_help_completion_zsh(void);
void vial_help_completion_fish(void);
