/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by template.c (what there is) and template_build.c (making one). */
#pragma once

#include "cli/cli.h"

int vial_template_build_run(VialCli *cli, int argc, char **argv);
int vial_template_rebuild_run(VialCli *cli, int argc, char **argv);
int vial_template_logs_run(VialCli *cli, int argc, char **argv);
extern const VialOption vial_template_build_options[];
extern const VialOption vial_template_rebuild_options[];
extern const VialOption vial_template_logs_options[];
