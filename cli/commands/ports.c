/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"

const VialSyntax vial_ports_syntax = {
	.arguments = "ID",
	.description = "Each can be reached through viald, with the key, at the URL shown.",
	.min_arguments = 1,
	.max_arguments = 1,
	.completes = "@sandbox",
};

int vial_ports_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	g_autofree char *path = id ? vial_api_path("/sandboxes/%s/ports", id) : NULL;
	if (!id || !vial_api_call(cli, "GET", path, NULL, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(answer);
		return VIAL_EXIT_OK;
	}
	const json_t *ports = vial_api_list(answer, "ports");
	g_autoptr(VialTable) table = vial_table_new(">PORT ADDRESS URL");
	for (gsize i = 0; i < json_array_size(ports); i++) {
		const json_t *entry = json_array_get(ports, i);
		gint64 port = json_is_integer(entry) ? json_integer_value(entry) : vial_api_integer(entry, "port", 0);
		if (cli->is_quiet) {
			printf("%" G_GINT64_FORMAT "\n", port);
			continue;
		}
		vial_table_add_take(table, g_strdup_printf("%" G_GINT64_FORMAT, port));
		vial_table_add(table, vial_api_string(entry, "address"));
		vial_table_add_take(table, g_strdup_printf("%s%s/%" G_GINT64_FORMAT "/", cli->url, path, port));
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}
