/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/status.h"
#include "cli/table.h"

static char *state;
static GPtrArray *metadata;

static const VialOption options[] = {
	{ 's', "state", VIAL_OPTION_STRING, &state, "STATE", "only those in this state", "creating running paused hibernated failed" },
	{ 'm', "metadata", VIAL_OPTION_LIST, &metadata, "K=V", "only those with this label", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_ls_syntax = {
	.arguments = "[OPTION...]",
	.description = "With --quiet only the ids, one per line.",
	.options = options,
};

static char *query_from_options(GError **error)
{
	g_autoptr(json_t) labels = vial_api_object_from_pairs(metadata, "metadata", error);
	if (!labels)
		return NULL;
	GString *query = g_string_new(NULL);
	const char *key;
	json_t *value;
	if (state) {
		g_string_append(query, "&state=");
		g_string_append_uri_escaped(query, state, NULL, FALSE);
	}
	json_object_foreach (labels, key, value) {
		g_string_append(query, "&metadata.");
		g_string_append_uri_escaped(query, key, NULL, FALSE);
		g_string_append_c(query, '=');
		g_string_append_uri_escaped(query, json_string_value(value), NULL, FALSE);
	}
	return g_string_free(query, FALSE);
}

static char *idle_policy(const json_t *sandbox)
{
	gint64 seconds = vial_api_integer(sandbox, "idle_seconds", 0);
	if (seconds <= 0)
		return NULL;
	g_autofree char *time = vial_output_duration(seconds);
	const char *action = vial_api_string(sandbox, "on_idle");
	return g_strdup_printf("%s %s", time, action ? action : "delete");
}

static char *boot(const json_t *sandbox)
{
	const char *mode = vial_api_string(sandbox, "boot_mode");
	const json_t *ms = json_object_get(sandbox, "boot_ms");
	if (!json_is_number(ms))
		return g_strdup(mode);
	double value = json_number_value(ms);
	return g_strdup_printf("%.*f ms%s%s", value < 10 ? 1 : 0, value, mode ? " " : "", mode ? mode : "");
}

static void add_row(VialTable *table, const json_t *sandbox)
{
	const char *status = vial_api_string(sandbox, "status");
	vial_table_add(table, vial_api_string(sandbox, "id"));
	vial_table_add(table, vial_api_string(sandbox, "template"));
	vial_table_add(table, status);
	vial_table_style(table, vial_status_style(status));
	vial_table_add(table, vial_api_string(sandbox, "engine"));
	vial_table_add_take(table, vial_output_age(vial_api_string(sandbox, "created_at")));
	vial_table_add_take(table, idle_policy(sandbox));
	vial_table_add_take(table, boot(sandbox));
	vial_table_add_take(table, vial_api_pairs(json_object_get(sandbox, "metadata")));
}

int vial_ls_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autofree char *query = query_from_options(&error);
	if (!query)
		return vial_output_fail_usage(cli, error);
	g_autoptr(json_t) sandboxes = vial_api_sandboxes(cli, query, &error);
	if (!sandboxes)
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(sandboxes);
		return VIAL_EXIT_OK;
	}
	g_autoptr(VialTable) table = vial_table_new("ID TEMPLATE STATUS ENGINE >AGE IDLE BOOT METADATA");
	for (gsize i = 0; i < json_array_size(sandboxes); i++) {
		const json_t *sandbox = json_array_get(sandboxes, i);
		const char *id = vial_api_string(sandbox, "id");
		if (cli->is_quiet)
			puts(id ? id : "-");
		else
			add_row(table, sandbox);
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}
