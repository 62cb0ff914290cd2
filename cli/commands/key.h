/* SPDX-License-Identifier: Apache-2.0 */
/* What key.c (looking) and key_change.c (making and changing) share. */
#pragma once

#include "cli/api.h"

extern char *vial_key_project; /* --project */
extern const VialOption vial_key_create_options[], vial_key_set_options[], vial_key_rotate_options[];

/* All keys that we may see: of --project, or of every project for an operator. A JSON array. */
json_t *vial_key_all(VialCli *cli, GError **error);
/* By its id or its name; an error when several have that name, which lists their ids. */
json_t *vial_key_find(VialCli *cli, const char *given, GError **error);
void vial_key_print(VialCli *cli, const json_t *key);

int vial_key_create_run(VialCli *cli, int argc, char **argv);
int vial_key_set_run(VialCli *cli, int argc, char **argv);
int vial_key_rotate_run(VialCli *cli, int argc, char **argv);
