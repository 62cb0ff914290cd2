/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/table.h"

const VialSyntax vial_templates_syntax = {
	.arguments = "[NAME]",
	.description = "With a name, all about that one. With --quiet only the names.",
	.max_arguments = 1,
	.completes = "@template",
};

static void add_row(VialTable *table, const json_t *template)
{
	const json_t *aliases = json_object_get(template, "aliases");
	GString *joined = g_string_new(NULL);
	for (gsize i = 0; i < json_array_size(aliases); i++) {
		const char *alias = json_string_value(json_array_get(aliases, i));
		g_string_append_printf(joined, "%s%s", i ? " " : "", alias ? alias : "?");
	}
	gint64 size_bytes = vial_api_integer(template, "size_bytes", -1), memory_mb = vial_api_integer(template, "memory_mb", -1);
	vial_table_add(table, vial_api_string(template, "name"));
	vial_table_add_take(table, g_string_free(joined, FALSE));
	vial_table_add(table, json_is_false(json_object_get(template, "ready")) ? "no" : "yes");
	vial_table_add_take(table, vial_api_text(template, "cpu"));
	vial_table_add_take(table, memory_mb >= 0 ? vial_output_bytes(memory_mb << 20) : NULL);
	vial_table_add_take(table, size_bytes >= 0 ? vial_output_bytes(size_bytes) : NULL);
	vial_table_add(table, vial_api_string(template, "description"));
}

int vial_templates_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *path = argc ? vial_api_path("/templates/%s", argv[0]) : vial_api_path("/templates");
	if (!vial_api_call(cli, "GET", path, NULL, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(answer);
		return VIAL_EXIT_OK;
	}
	if (argc) {
		vial_fields_print(cli, answer);
		return VIAL_EXIT_OK;
	}
	const json_t *templates = vial_api_list(answer, "templates");
	g_autoptr(VialTable) table = vial_table_new("NAME ALIAS READY >CPU >MEMORY >SIZE DESCRIPTION");
	for (gsize i = 0; i < json_array_size(templates); i++) {
		const json_t *template = json_array_get(templates, i);
		g_autofree char *name = vial_api_text(template, "name");
		g_autofree char *clean = vial_sanitize_line(name);
		if (cli->is_quiet)
			puts(clean);
		else
			add_row(table, template);
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}
