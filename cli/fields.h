/* SPDX-License-Identifier: Apache-2.0 */
/* All about one thing: a line for each field of its JSON. */
#pragma once

#include "cli/cli.h"

/* One member as a line of text: times with their distance from now, objects as "a=b c=d", lists with commas. To be freed; cleaned. */
char *vial_fields_text(const json_t *object, const char *name);
/* "name   text"; `style` colours the text, NULL: not. Both are cleaned. */
void vial_fields_line(VialCli *cli, const char *name, const char *text, const char *style);
/* Every member, in its order. */
void vial_fields_print(VialCli *cli, const json_t *object);
