/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of `vial agent`. */
#pragma once

#include "cli/cli.h"

/* What a version is to be, from the options of `create` and `version`; NULL with *error. */
json_t *vial_agent_version_body(GError **error);

extern const VialOption vial_agent_create_options[], vial_agent_version_options[];
int vial_agent_create_run(VialCli *cli, int argc, char **argv);
int vial_agent_version_run(VialCli *cli, int argc, char **argv);

extern const VialOption vial_agent_run_options[], vial_agent_exec_options[], vial_agent_sessions_options[], vial_agent_end_options[],
	vial_agent_forget_options[];
int vial_agent_run_run(VialCli *cli, int argc, char **argv);
int vial_agent_exec_run(VialCli *cli, int argc, char **argv);
int vial_agent_sessions_run(VialCli *cli, int argc, char **argv);
int vial_agent_end_run(VialCli *cli, int argc, char **argv);
int vial_agent_forget_run(VialCli *cli, int argc, char **argv);
