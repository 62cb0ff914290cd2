/* SPDX-License-Identifier: Apache-2.0 */
/* What was used: sandbox-, processor- and memory-seconds, runs and bytes, in groups. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/times.h"

static char *group_by, *project, *from, *to;
static gboolean is_all, is_csv;

static const VialOption options[] = {
	{ 'b', "by", VIAL_OPTION_STRING, &group_by, "LIST", "a row for each day, template, agent, key or project, with commas; none: one row",
	  "day template agent key project none" },
	{ 'a', "all", VIAL_OPTION_FLAG, &is_all, NULL, "of all projects (an operator's key)", NULL },
	{ 'p', "project", VIAL_OPTION_STRING, &project, "NAME", "of this one, not our own", "@project" },
	{ 0, "from", VIAL_OPTION_STRING, &from, "DAY", "the first day: 2026-11-01, or 30d for 30 days ago", NULL },
	{ 0, "to", VIAL_OPTION_STRING, &to, "DAY", "the last day", NULL },
	{ 0, "csv", VIAL_OPTION_FLAG, &is_csv, NULL, "as CSV, for a spreadsheet", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_usage_syntax = {
	.arguments = "[OPTION...]",
	.description =
		"Seconds are those that sandboxes were awake, times their processors, times their memory. Days are of UTC; without --by there is a\n"
		"row for each day (with --all, for each day and project).\n\n"
		"  vial usage --by day,template\n"
		"  vial usage --all --from 2026-11-01 --csv > november.csv",
	.options = options,
};

static void append(GString *path, const char *name, const char *value)
{
	if (!value)
		return;
	g_string_append_printf(path, "&%s=", name);
	g_string_append_uri_escaped(path, value, NULL, FALSE);
}

static char *usage_path(VialCli *cli, GError **error)
{
	g_autofree char *own = NULL, *role = NULL, *first = NULL, *last = NULL;
	if ((from && !(first = vial_time_day_from_option("from", from, error))) || (to && !(last = vial_time_day_from_option("to", to, error))))
		return NULL;
	if (!is_all && !project && !vial_api_me(cli, &own, &role, error))
		return NULL;
	g_autofree char *base = vial_api_path("/projects/%s/usage?format=%s", is_all ? "*" : project ? project : own, is_csv ? "csv" : "json");
	GString *path = g_string_new(base);
	append(path, "group_by", group_by ? group_by : is_all ? "day,project" : "day");
	append(path, "from", first);
	append(path, "to", last);
	return g_string_free(path, FALSE);
}

static gboolean on_csv(const void *bytes, gsize size, gpointer data, GError **error)
{
	return vial_sink_write(data, bytes, size, error);
}

static int print_csv(VialCli *cli, const char *path)
{
	GError *error = NULL;
	VialSink sink;
	vial_sink_init(&sink, cli, STDOUT_FILENO, FALSE);
	g_auto(VialHttpRequest) request = {
		.method = "GET", .path = path, .on_data = on_csv, .data = &sink, .accept = "text/csv", .timeout_seconds = VIAL_API_TIMEOUT_SECONDS
	};
	gboolean is_ok = vial_http_perform(cli->http, &request, &error);
	vial_sink_end(&sink);
	return is_ok ? VIAL_EXIT_OK : vial_output_fail(cli, error);
}

/* --- the table --- */

static const char *const groups[] = { "day", "project", "template", "agent", "key_id" };
static const char *const headers[] = { "DAY", "PROJECT", "TEMPLATE", "AGENT", "KEY" };
static const char *const sums[] = { "sandbox_seconds", "vcpu_seconds", "memory_gb_seconds", "runs", "bytes_in", "bytes_out" };

static char *sum_text(guint i, double value)
{
	if (g_str_has_prefix(sums[i], "bytes"))
		return vial_output_bytes((gint64)value);
	return g_str_has_suffix(sums[i], "seconds") ? g_strdup_printf("%.1f", value) : g_strdup_printf("%.0f", value);
}

static gboolean has_group(const json_t *rows, const char *name)
{
	return json_object_get(json_array_get(rows, 0), name) != NULL;
}

/* The keys that we may see, for their names: {id: name}; NULL when we may see none. Asking without the right would be a refusal, and on record. */
static json_t *key_names(VialCli *cli, const json_t *rows)
{
	g_autofree char *own = NULL, *role = NULL;
	if (!has_group(rows, "key_id") || !vial_api_me(cli, &own, &role, NULL) || (strcmp(role, "admin") != 0 && strcmp(role, "operator") != 0))
		return NULL;
	const char *whose = is_all ? "*" : project;
	g_autofree char *escaped = whose ? g_uri_escape_string(whose, NULL, FALSE) : NULL,
			*query = g_strconcat(whose ? "&project=" : "", escaped, NULL);
	g_autoptr(json_t) keys = vial_api_pages(cli, "/v1/keys", query, NULL);
	json_t *names = keys ? json_object() : NULL;
	for (gsize i = 0; names && i < json_array_size(keys); i++) {
		g_autofree char *id = vial_api_text(json_array_get(keys, i), "id"), *name = vial_api_text(json_array_get(keys, i), "name");
		json_object_set_new(names, id, json_string(name));
	}
	return names;
}

static VialTable *make_table(const json_t *rows, gboolean has_names)
{
	GString *titles = g_string_new(NULL);
	for (guint i = 0; i < G_N_ELEMENTS(groups); i++)
		if (has_group(rows, groups[i]))
			g_string_append_printf(titles, "%s ", headers[i]);
	if (has_names)
		g_string_append(titles, "NAME ");
	g_string_append(titles, ">SANDBOX-S >VCPU-S >GB-S >RUNS >IN >OUT");
	VialTable *table = vial_table_new(titles->str);
	g_string_free(titles, TRUE);
	return table;
}

static void print_rows(VialCli *cli, const json_t *rows)
{
	g_autoptr(json_t) names = key_names(cli, rows);
	g_autoptr(VialTable) table = make_table(rows, names != NULL);
	double totals[G_N_ELEMENTS(sums)] = { 0 };
	gboolean is_first = TRUE;
	for (gsize r = 0; r < json_array_size(rows); r++) {
		const json_t *row = json_array_get(rows, r);
		for (guint i = 0; i < G_N_ELEMENTS(groups); i++)
			if (has_group(rows, groups[i]))
				vial_table_add(table, vial_api_string(row, groups[i]));
		const char *key = vial_api_string(row, "key_id");
		if (names)
			vial_table_add(table, key ? vial_api_string(names, key) : NULL);
		for (guint i = 0; i < G_N_ELEMENTS(sums); i++) {
			double value = json_number_value(json_object_get(row, sums[i]));
			totals[i] += value;
			vial_table_add_take(table, sum_text(i, value));
		}
	}
	if (json_array_size(rows) > 1) {
		for (guint i = 0; i < G_N_ELEMENTS(groups); i++)
			if (has_group(rows, groups[i])) {
				vial_table_add(table, is_first ? "total" : " ");
				is_first = FALSE;
			}
		if (names)
			vial_table_add(table, " ");
		for (guint i = 0; i < G_N_ELEMENTS(sums); i++)
			vial_table_add_take(table, sum_text(i, totals[i]));
	}
	vial_table_print(table, cli->has_color_out);
}

int vial_usage_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	if (is_all && project)
		return vial_output_usage(cli, "--all and --project exclude each other");
	if (is_csv && cli->is_json)
		return vial_output_usage(cli, "--csv and --json exclude each other");
	g_autofree char *path = usage_path(cli, &error);
	if (!path)
		return error->domain == VIAL_OPTIONS_ERROR ? vial_output_fail_usage(cli, error) : vial_output_fail(cli, error);
	if (is_csv)
		return print_csv(cli, path);
	g_autoptr(json_t) rows = NULL;
	if (!vial_api_call(cli, "GET", path, NULL, &rows, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(rows);
	else if (json_array_size(rows) == 0)
		vial_output_note(cli, "nothing was used in that time");
	else
		print_rows(cli, rows);
	return VIAL_EXIT_OK;
}
