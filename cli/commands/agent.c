/* SPDX-License-Identifier: Apache-2.0 */
/* Agents: which there are, one of them, its versions, and its end. agent_version.c makes versions, agent_call.c uses them. */
#include "cli/commands/agent.h"

#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/table.h"

static gboolean is_forced;

static const VialOption rm_options[] = {
	{ 'f', "force", VIAL_OPTION_FLAG, &is_forced, NULL, "one that is gone already is no error", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

static json_t *get(VialCli *cli, const char *path, GError **error)
{
	json_t *answer = NULL;
	return vial_api_call(cli, "GET", path, NULL, &answer, error) ? answer : NULL;
}

static int ls_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) agents = get(cli, "/v1/agents", &error);
	if (!agents)
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(agents);
		return VIAL_EXIT_OK;
	}
	g_autoptr(VialTable) table = vial_table_new("NAME >ACTIVE >VERSIONS >SESSIONS >AGE DESCRIPTION");
	for (gsize i = 0; i < json_array_size(agents); i++) {
		const json_t *agent = json_array_get(agents, i);
		g_autofree char *name = vial_api_line(agent, "name");
		if (cli->is_quiet) {
			puts(name);
			continue;
		}
		vial_table_add(table, name);
		vial_table_add_take(table, vial_api_text(agent, "active_version"));
		vial_table_add_take(table, vial_api_text(agent, "versions"));
		vial_table_add_take(table, vial_api_text(agent, "sessions"));
		vial_table_add_take(table, vial_output_age(vial_api_string(agent, "created_at")));
		vial_table_add(table, vial_api_string(agent, "description"));
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}

static void add_version_row(VialTable *table, const json_t *version)
{
	const char *state = vial_api_string(version, "state");
	g_autofree char *idle = vial_output_duration(vial_api_integer(version, "idle_seconds", 0));
	gboolean is_kept = json_is_true(json_object_get(version, "never_expire"));

	vial_table_add_take(table, vial_api_text(version, "version"));
	vial_table_add(table, state);
	vial_table_style(table, g_strcmp0(state, "active") == 0 ? "32" : NULL);
	vial_table_add_take(table, vial_api_text(version, "sessions"));
	vial_table_add(table, vial_api_string(version, "template"));
	vial_table_add_take(table, vial_api_text(version, "cpu"));
	vial_table_add_take(table, vial_api_text(version, "memory_mb"));
	vial_table_add(table, vial_api_string(json_object_get(version, "network"), "mode"));
	vial_table_add_take(table, g_strdup_printf("%s, then %s", idle, is_kept ? "sleeps" : "ends"));
	vial_table_add_take(table, vial_output_age(vial_api_string(version, "created_at")));
}

static int versions_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autofree char *path = vial_api_path("/agents/%s/versions", argv[0]);
	g_autoptr(json_t) versions = get(cli, path, &error);
	if (!versions)
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(versions);
		return VIAL_EXIT_OK;
	}
	g_autoptr(VialTable) table = vial_table_new(">VERSION STATE >SESSIONS TEMPLATE >CPU >MB NETWORK IDLE >AGE");
	for (gsize i = 0; i < json_array_size(versions); i++) {
		g_autofree char *number = vial_api_line(json_array_get(versions, i), "version");
		if (cli->is_quiet)
			puts(number);
		else
			add_version_row(table, json_array_get(versions, i));
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}

static int show_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autofree char *path = argc > 1 ? vial_api_path("/agents/%s/versions/%s", argv[0], argv[1]) : vial_api_path("/agents/%s", argv[0]);
	g_autoptr(json_t) thing = get(cli, path, &error);
	if (!thing)
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(thing);
	else
		vial_fields_print(cli, thing);
	return VIAL_EXIT_OK;
}

static int change_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) version = NULL;
	g_autofree char *path = vial_api_path("/agents/%s/versions/%s/%s", argv[0], argv[1], cli->verb->name);
	if (!vial_api_call(cli, "POST", path, NULL, &version, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(version);
	else if (g_strcmp0(vial_api_string(version, "state"), "draining") == 0)
		vial_output_note(cli, "version %" G_GINT64_FORMAT " drains: it has %" G_GINT64_FORMAT " sessions left",
		                 vial_api_integer(version, "version", 0), vial_api_integer(version, "sessions", 0));
	return VIAL_EXIT_OK;
}

static int rm_run(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	g_autoptr(json_t) removed = json_array();
	for (int i = 0; i < argc; i++) {
		GError *error = NULL;
		g_autofree char *path = vial_api_path("/agents/%s", argv[i]);
		if (vial_api_call(cli, "DELETE", path, NULL, NULL, &error)) {
			json_array_append_new(removed, json_string(argv[i]));
			if (!cli->is_quiet && !cli->is_json)
				puts(argv[i]);
		} else if (is_forced && g_error_matches(error, VIAL_HTTP_ERROR, 404)) {
			g_error_free(error);
		} else {
			status = vial_output_fail(cli, error);
		}
	}
	if (cli->is_json)
		vial_output_json(removed);
	return status;
}

static const VialVerb verbs[] = {
	{ "create", "NAME [OPTION...]", "Make an agent with its first version, which is active at once", vial_agent_create_run,
	  vial_agent_create_options, 1, 1, NULL, NULL },
	{ "version", "NAME [OPTION...]", "Make its next version and print the number", vial_agent_version_run, vial_agent_version_options, 1, 1,
	  "@agent", NULL },
	{ "ls", "", "List agents", ls_run, NULL, 0, 0, NULL, NULL },
	{ "show", "NAME [VERSION]", "Show all about one, or about a version of it", show_run, NULL, 1, 2, "@agent", "" },
	{ "versions", "NAME", "List its versions, newest first", versions_run, NULL, 1, 1, "@agent", NULL },
	{ "activate", "NAME VERSION", "Make a version the one that calls without a version mean", change_run, NULL, 2, 2, "@agent", "" },
	{ "retire", "NAME VERSION", "Let a version drain: no new sessions, those there are go on", change_run, NULL, 2, 2, "@agent", "" },
	{ "run", "NAME [OPTION...] CODE|-", "Run code in a session; the first call makes its sandbox", vial_agent_run_run, vial_agent_run_options, 2,
	  2, "@agent", "" },
	{ "exec", "NAME [OPTION...] [--] COMMAND [ARGUMENT...]", "Run a command in a session", vial_agent_exec_run, vial_agent_exec_options, 2, -1,
	  "@agent", "" },
	{ "sessions", "NAME [OPTION...]", "List its sessions, newest first", vial_agent_sessions_run, vial_agent_sessions_options, 1, 1, "@agent",
	  NULL },
	{ "end", "NAME SESSION...", "End sessions, and their sandboxes", vial_agent_end_run, vial_agent_end_options, 2, -1, "@agent", "" },
	{ "forget", "USER [OPTION...]", "End all sessions of a user, in all agents or in one", vial_agent_forget_run, vial_agent_forget_options, 1, 1,
	  NULL, NULL },
	{ "rm", "NAME...", "Delete agents and end all their sandboxes", rm_run, rm_options, 1, -1, "@agent", NULL },
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL },
};

const VialSyntax vial_agent_syntax = {
	.arguments = "create|version|ls|show|versions|activate|retire|run|exec|sessions|end|forget|rm [ARGUMENT...]",
	.description =
		"An agent has numbered versions that are never changed: a change is the next one. Each session of each user has a sandbox of its\n"
		"own in each version, made by its first call; without --session it is the one called `default`.\n\n"
		"  vial agent create analyst --template code-interpreter --tier 2x4 --allow api.example.org --idle 10m\n"
		"  vial agent run analyst --session s1 'df.describe()'\n"
		"  vial agent version analyst --template code-interpreter --never-expire --activate\n"
		"  vial agent retire analyst 1\n"
		"  vial agent sessions analyst --user ann",
	.verbs = verbs,
};
