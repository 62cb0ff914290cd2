/* SPDX-License-Identifier: Apache-2.0 */
/* What a project may have, has and has left; and setting it. */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/quota_options.h"
#include "cli/table.h"

/* The name under which `used` counts what a quota limits; NULL: it is a ceiling, nothing is counted. */
static const char *counted_as(const char *quota)
{
	if (strcmp(quota, "max_create_per_hour") == 0)
		return "created_last_hour";
	if (!g_str_has_prefix(quota, "max_") || strcmp(quota, "max_ttl_seconds") == 0)
		return NULL;
	return quota + strlen("max_");
}

static void add_row(VialTable *table, const char *name, const json_t *quotas, const json_t *used)
{
	const char *counter = counted_as(name);
	const json_t *limit = json_object_get(quotas, name), *count = counter ? json_object_get(used, counter) : NULL;
	vial_table_add(table, name);
	vial_table_add_take(table, vial_quota_text(name, limit));
	vial_table_add_take(table, json_is_number(count) ? vial_quota_text(name, count) : NULL);
	if (!json_is_number(limit) || !json_is_number(count)) {
		vial_table_add(table, NULL);
		return;
	}
	/* More than allowed is in use when the limit was lowered since. */
	double left = MAX(json_number_value(limit) - json_number_value(count), 0);
	g_autoptr(json_t) rest = json_real(left);
	vial_table_add_take(table, vial_quota_text(name, rest));
	vial_table_style(table, left > 0 ? "32" : "31");
}

/* {"ci": 3, "agents": 1} as "3 by ci, 1 by agents". */
static void print_by(const char *what, const char *word, const json_t *counts)
{
	const char *name;
	json_t *count;
	gboolean is_first = TRUE;
	if (json_object_size(counts) == 0)
		return;
	printf("%s", what);
	json_object_foreach ((json_t *)counts, name, count) {
		g_autofree char *clean = vial_sanitize_line(name);
		printf("%s%" JSON_INTEGER_FORMAT " %s %s", is_first ? " " : ", ", json_integer_value(count), word, clean);
		is_first = FALSE;
	}
	putchar('\n');
}

static int print_state(VialCli *cli, const json_t *state)
{
	if (cli->is_json) {
		vial_output_json(state);
		return VIAL_EXIT_OK;
	}
	const json_t *by = json_object_get(state, "by");
	g_autofree char *project = vial_api_line(state, "project");
	g_autoptr(VialTable) table = vial_table_new("QUOTA >LIMIT >USED >LEFT");
	for (guint i = 0; i < VIAL_QUOTA_COUNT; i++)
		add_row(table, vial_quota_name(i), json_object_get(state, "quotas"), json_object_get(state, "used"));
	if (!cli->is_quiet)
		printf("project %s\n", project);
	vial_table_print(table, cli->has_color_out);
	print_by("sandboxes:", "by", json_object_get(by, "keys"));
	print_by("          ", "of", json_object_get(by, "templates"));
	return VIAL_EXIT_OK;
}

static json_t *read_state(VialCli *cli, const char *project, GError **error)
{
	json_t *state = NULL;
	g_autofree char *path = vial_api_path("/projects/%s/quotas", project);
	return vial_api_call(cli, "GET", path, NULL, &state, error) ? state : NULL;
}

static int show_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autofree char *own = NULL, *role = NULL;
	if (argc == 0 && !vial_api_me(cli, &own, &role, &error))
		return vial_output_fail(cli, error);
	g_autoptr(json_t) state = read_state(cli, argc ? argv[0] : own, &error);
	return state ? print_state(cli, state) : vial_output_fail(cli, error);
}

/* PATCH, not PUT: only what is named changes, whatever somebody else does at the same time. */
static int set_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	json_t *quotas = json_object();
	for (int i = 1; i < argc; i++)
		if (!vial_quota_set_pair(quotas, argv[i], &error)) {
			json_decref(quotas);
			return vial_output_fail_usage(cli, error);
		}
	g_autofree char *path = vial_api_path("/projects/%s", argv[0]);
	if (!vial_api_call(cli, "PATCH", path, json_pack("{s:o}", "quotas", quotas), NULL, &error))
		return vial_output_fail(cli, error);
	g_autoptr(json_t) state = read_state(cli, argv[0], &error);
	return state ? print_state(cli, state) : vial_output_fail(cli, error);
}

static const VialVerb verbs[] = {
	{ "", "[PROJECT]", "Show what a project may have, has and has left; without a name, our own", show_run, NULL, 0, 1, "@project", NULL },
	{ "show", "[PROJECT]", "The same, for a project that is called like a verb", show_run, NULL, 0, 1, "@project", NULL },
	{ "set", "PROJECT NAME=VALUE...", "Change quotas; NAME=none takes one away", set_run, NULL, 2, -1, "@project", "@quota" },
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL },
};

const VialSyntax vial_quota_syntax = {
	.arguments = "[PROJECT] | set PROJECT NAME=VALUE...",
	.description =
		"Quotas that are not named stay as they are. Values may have units: max_memory_mb=64G, max_snapshot_bytes=20G, max_ttl_seconds=8h.\n"
		"Setting is for an operator's key.\n\n"
		"  vial quota set analytics max_sandboxes=50 max_vcpu=none network_modes=disabled,filtered",
	.verbs = verbs,
};
