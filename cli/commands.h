/* SPDX-License-Identifier: Apache-2.0 */
/* One line per sub-command: commands/NAME.c defines vial_NAME_run() and vial_NAME_syntax. */
#pragma once

#include "cli/cli.h"

#define VIAL_DECLARE_COMMAND(name)                                  \
	int vial_##name##_run(VialCli *cli, int argc, char **argv); \
	extern const VialSyntax vial_##name##_syntax;

/* One that does several things: the verbs' run functions are in its syntax. */
#define VIAL_DECLARE_VERBS(name) extern const VialSyntax vial_##name##_syntax;

VIAL_DECLARE_COMMAND(create)
VIAL_DECLARE_COMMAND(ls)
VIAL_DECLARE_COMMAND(info)
VIAL_DECLARE_COMMAND(rm)
VIAL_DECLARE_COMMAND(top)
VIAL_DECLARE_COMMAND(logs)
VIAL_DECLARE_COMMAND(ports)
VIAL_DECLARE_COMMAND(net)
VIAL_DECLARE_COMMAND(exec)
VIAL_DECLARE_COMMAND(sh)
VIAL_DECLARE_COMMAND(cp)
VIAL_DECLARE_COMMAND(ps)
VIAL_DECLARE_COMMAND(kill)
VIAL_DECLARE_COMMAND(attach)
VIAL_DECLARE_COMMAND(run)
VIAL_DECLARE_COMMAND(repl)
VIAL_DECLARE_COMMAND(pause)
VIAL_DECLARE_COMMAND(resume)
VIAL_DECLARE_COMMAND(hibernate)
VIAL_DECLARE_COMMAND(wake)
VIAL_DECLARE_COMMAND(snapshot)
VIAL_DECLARE_COMMAND(snapshots)
VIAL_DECLARE_COMMAND(fork)
VIAL_DECLARE_COMMAND(promote)
VIAL_DECLARE_COMMAND(tree)
VIAL_DECLARE_COMMAND(explore)
VIAL_DECLARE_VERBS(agent)
VIAL_DECLARE_VERBS(project)
VIAL_DECLARE_VERBS(key)
VIAL_DECLARE_VERBS(quota)
VIAL_DECLARE_COMMAND(usage)
VIAL_DECLARE_VERBS(audit)
VIAL_DECLARE_COMMAND(templates)
VIAL_DECLARE_COMMAND(doctor)
VIAL_DECLARE_COMMAND(version)
VIAL_DECLARE_COMMAND(completion)
VIAL_DECLARE_COMMAND(help)
