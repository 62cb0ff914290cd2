/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"

static gboolean does_remove;

static const VialOption options[] = {
	{ 0, "rm", VIAL_OPTION_FLAG, &does_remove, NULL, "remove those named", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_snapshots_syntax = {
	.arguments = "[SNAPSHOT...]",
	.description = "Lists all, or shows those named. Removing a snapshot does not touch the sandboxes made from it.",
	.options = options,
	.max_arguments = -1,
	.completes = "@snapshot",
};

static int remove_each(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	for (int i = 0; i < argc; i++) {
		GError *error = NULL;
		g_autofree char *path = vial_api_path("/snapshots/%s", argv[i]);
		if (!vial_api_call(cli, "DELETE", path, NULL, NULL, &error))
			status = vial_output_fail(cli, error);
		else if (!cli->is_quiet && !cli->is_json)
			puts(argv[i]);
	}
	return status;
}

/* All, or those asked for, as one array. */
static json_t *collect(VialCli *cli, int argc, char **argv, GError **error)
{
	g_autoptr(json_t) list = json_array();
	g_autoptr(json_t) answer = NULL;
	if (argc == 0) {
		if (!vial_api_call(cli, "GET", "/v1/snapshots", NULL, &answer, error))
			return NULL;
		json_array_extend(list, vial_api_list(answer, "snapshots"));
	}
	for (int i = 0; i < argc; i++) {
		json_t *snapshot = NULL;
		g_autofree char *path = vial_api_path("/snapshots/%s", argv[i]);
		if (!vial_api_call(cli, "GET", path, NULL, &snapshot, error))
			return NULL;
		json_array_append_new(list, snapshot);
	}
	return g_steal_pointer(&list);
}

int vial_snapshots_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	if (does_remove && argc == 0)
		return vial_output_usage(cli, "name the snapshots to remove");
	if (does_remove)
		return remove_each(cli, argc, argv);
	g_autoptr(json_t) list = collect(cli, argc, argv, &error);
	if (!list)
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(list);
		return VIAL_EXIT_OK;
	}
	g_autoptr(VialTable) table = vial_table_new("ID NAME SANDBOX TEMPLATE >SIZE >AGE");
	for (gsize i = 0; i < json_array_size(list); i++) {
		const json_t *snapshot = json_array_get(list, i);
		gint64 size_bytes = vial_api_integer(snapshot, "size_bytes", -1);
		g_autofree char *id = vial_api_text(snapshot, "id");
		if (cli->is_quiet) {
			puts(id);
			continue;
		}
		vial_table_add(table, id);
		vial_table_add(table, vial_api_string(snapshot, "name"));
		vial_table_add(table, vial_api_string(snapshot, "sandbox_id"));
		vial_table_add(table, vial_api_string(snapshot, "template"));
		vial_table_add_take(table, size_bytes >= 0 ? vial_output_bytes(size_bytes) : NULL);
		vial_table_add_take(table, vial_output_age(vial_api_string(snapshot, "created_at")));
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}
