/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"

const VialSyntax vial_tiers_syntax = {
	.arguments = "",
	.description = "The sizes that have a name, and whether this server can give them to you. Any other is asked for with --cpu and --memory.",
};

static void add_row(VialTable *table, const json_t *tier)
{
	gint64 memory_mb = vial_api_integer(tier, "memory_mb", -1);
	gboolean is_available = json_is_true(json_object_get(tier, "available"));

	vial_table_add(table, vial_api_string(tier, "name"));
	vial_table_add_take(table, vial_api_text(tier, "cpu"));
	vial_table_add_take(table, memory_mb >= 0 ? vial_output_bytes(memory_mb << 20) : NULL);
	vial_table_add(table, is_available ? "yes" : "no");
	vial_table_add(table, is_available ? NULL : vial_api_string(tier, "reason"));
}

int vial_tiers_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	if (!vial_api_call(cli, "GET", "/v1/tiers", NULL, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(answer);
		return VIAL_EXIT_OK;
	}
	g_autoptr(VialTable) table = vial_table_new("NAME >CPU >MEMORY AVAILABLE REASON");
	for (gsize i = 0; i < json_array_size(answer); i++) {
		const json_t *tier = json_array_get(answer, i);
		g_autofree char *name = vial_api_text(tier, "name");
		g_autofree char *clean = vial_sanitize_line(name);
		if (cli->is_quiet)
			puts(clean);
		else
			add_row(table, tier);
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}
