/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"

static gboolean is_all;

static const VialOption options[] = {
	{ 'a', "all", VIAL_OPTION_FLAG, &is_all, NULL, "also those that have ended lately", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_ps_syntax = {
	.arguments = "ID",
	.description = "What exec has started, in the foreground and in the background. With --quiet only the process ids.",
	.options = options,
	.min_arguments = 1,
	.max_arguments = 1,
	.completes = "@sandbox",
};

static gboolean has_exited(const json_t *process)
{
	return g_strcmp0(vial_api_string(process, "state"), "exited") == 0;
}

static void add_row(VialTable *table, const json_t *process)
{
	gint64 started_ms = vial_api_integer(process, "started_at_ms", -1);
	gint64 rss_kb = vial_api_integer(process, "rss_kb", -1), cpu_ms = vial_api_integer(process, "cpu_ms", -1);
	const char *started = vial_api_string(process, "started_at");
	vial_table_add_take(table, vial_api_text(process, "pid"));
	vial_table_add(table, vial_api_string(process, "user"));
	if (has_exited(process))
		vial_table_add_take(table, g_strdup_printf("exited %" G_GINT64_FORMAT, vial_api_integer(process, "exit_code", 0)));
	else
		vial_table_add(table, json_is_true(json_object_get(process, "background")) ? "background" : "running");
	if (started_ms >= 0)
		vial_table_add_take(table, vial_output_duration((g_get_real_time() / 1000 - started_ms) / 1000));
	else
		vial_table_add_take(table, vial_output_age(started));
	vial_table_add_take(table, cpu_ms >= 0 ? g_strdup_printf("%.1fs", (double)cpu_ms / 1000) : NULL);
	vial_table_add_take(table, rss_kb >= 0 ? vial_output_bytes(rss_kb * 1024) : NULL);
	vial_table_add_take(table, vial_api_text(process, "cmd"));
}

int vial_ps_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	g_autofree char *path = id ? vial_api_path("/sandboxes/%s/processes", id) : NULL;
	if (!id || !vial_api_call(cli, "GET", path, NULL, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(answer);
		return VIAL_EXIT_OK;
	}
	const json_t *processes = vial_api_list(answer, "processes");
	g_autoptr(VialTable) table = vial_table_new(">PID USER STATE >AGE >CPU >MEMORY COMMAND");
	for (gsize i = 0; i < json_array_size(processes); i++) {
		const json_t *process = json_array_get(processes, i);
		if (has_exited(process) && !is_all)
			continue;
		if (cli->is_quiet)
			printf("%" G_GINT64_FORMAT "\n", vial_api_integer(process, "pid", 0));
		else
			add_row(table, process);
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}
