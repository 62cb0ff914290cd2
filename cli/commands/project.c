/* SPDX-License-Identifier: Apache-2.0 */
/* Projects: create | ls | show | set | rm, one function each. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/quota_options.h"
#include "cli/table.h"

static char *description;
static gboolean has_hold, has_no_hold, is_forced;

#define COMMON_OPTIONS                                                                          \
	{ 0, "description", VIAL_OPTION_STRING, &description, "TEXT", "what it is for", NULL }, \
		{ 0, "legal-hold", VIAL_OPTION_FLAG, &has_hold, NULL, "keep all of its records whatever their age", NULL }, VIAL_QUOTA_OPTIONS
#define END                                                       \
	{                                                         \
		0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL \
	}

static const VialOption create_options[] = { COMMON_OPTIONS, END };
static const VialOption set_options[] = {
	COMMON_OPTIONS,
	{ 0, "no-legal-hold", VIAL_OPTION_FLAG, &has_no_hold, NULL, "end the hold: old records are emptied again", NULL },
	END,
};
static const VialOption rm_options[] = {
	{ 'f', "force", VIAL_OPTION_FLAG, &is_forced, NULL, "do not ask; one that is gone already is no error", NULL },
	END,
};

/* The options that were given; NULL with *error when there is something wrong with them. */
static json_t *body_from_options(GError **error)
{
	g_autoptr(json_t) body = json_object();
	json_t *quotas = vial_quota_from_options(error);
	if (!quotas)
		return NULL;
	if (json_object_size(quotas) > 0)
		json_object_set(body, "quotas", quotas);
	json_decref(quotas);
	if (has_hold && has_no_hold) {
		g_set_error_literal(error, VIAL_OPTIONS_ERROR, 0, "--legal-hold and --no-legal-hold exclude each other");
		return NULL;
	}
	if (description)
		json_object_set_new(body, "description", json_string(description));
	if (has_hold || has_no_hold)
		json_object_set_new(body, "legal_hold", json_boolean(has_hold));
	return g_steal_pointer(&body);
}

static void print_project(VialCli *cli, const json_t *project)
{
	const char *name;
	json_t *value;
	if (cli->is_json) {
		vial_output_json(project);
		return;
	}
	json_object_foreach ((json_t *)project, name, value) {
		g_autofree char *text = json_is_boolean(value) ? g_strdup(json_is_true(value) ? "yes" : "no") : vial_fields_text(project, name);
		if (strcmp(name, "quotas") != 0)
			vial_fields_line(cli, name, text, NULL);
	}
	const json_t *quotas = json_object_get(project, "quotas");
	if (json_object_size(quotas) == 0)
		vial_fields_line(cli, "quotas", "none: nothing is limited", NULL);
	json_object_foreach ((json_t *)quotas, name, value) {
		g_autofree char *text = vial_quota_text(name, value);
		vial_fields_line(cli, name, text, NULL);
	}
}

static int create_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	json_t *body = body_from_options(&error);
	if (!body)
		return vial_output_fail_usage(cli, error);
	json_object_set_new(body, "name", json_string(argv[0]));
	g_autoptr(json_t) project = NULL;
	if (!vial_api_call(cli, "POST", "/v1/projects", body, &project, &error))
		return vial_output_fail(cli, error);
	g_autofree char *name = vial_api_line(project, "name");
	if (cli->is_json)
		vial_output_json(project);
	else
		puts(name);
	return VIAL_EXIT_OK;
}

static char *quota_summary(const json_t *quotas)
{
	GString *text = g_string_new(NULL);
	const char *name;
	json_t *value;
	json_object_foreach ((json_t *)quotas, name, value) {
		g_autofree char *shown = vial_quota_text(name, value);
		g_string_append_printf(text, "%s%s %s", text->len ? "; " : "", g_str_has_prefix(name, "max_") ? name + strlen("max_") : name, shown);
	}
	return g_string_free(text, FALSE);
}

static int ls_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	if (!vial_api_call(cli, "GET", "/v1/projects", NULL, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(answer);
		return VIAL_EXIT_OK;
	}
	const json_t *projects = vial_api_list(answer, "projects");
	g_autoptr(VialTable) table = vial_table_new("NAME STATE HOLD >AGE QUOTAS DESCRIPTION");
	for (gsize i = 0; i < json_array_size(projects); i++) {
		const json_t *project = json_array_get(projects, i);
		g_autofree char *name = vial_api_line(project, "name");
		const char *state = vial_api_string(project, "state");
		if (cli->is_quiet) {
			puts(name);
			continue;
		}
		vial_table_add(table, name);
		vial_table_add(table, state);
		vial_table_style(table, g_strcmp0(state, "active") == 0 ? "32" : "33");
		vial_table_add(table, json_is_true(json_object_get(project, "legal_hold")) ? "legal" : NULL);
		vial_table_add_take(table, vial_output_age(vial_api_string(project, "created_at")));
		vial_table_add_take(table, quota_summary(json_object_get(project, "quotas")));
		vial_table_add(table, vial_api_string(project, "description"));
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}

static int show_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) project = NULL;
	g_autofree char *path = vial_api_path("/projects/%s", argv[0]);
	if (!vial_api_call(cli, "GET", path, NULL, &project, &error))
		return vial_output_fail(cli, error);
	print_project(cli, project);
	return VIAL_EXIT_OK;
}

static int set_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	json_t *body = body_from_options(&error);
	if (!body)
		return vial_output_fail_usage(cli, error);
	if (json_object_size(body) == 0) {
		json_decref(body);
		return vial_output_usage(cli, "say what to change, such as --max-sandboxes 50, --legal-hold or --description TEXT");
	}
	g_autoptr(json_t) project = NULL;
	g_autofree char *path = vial_api_path("/projects/%s", argv[0]);
	if (!vial_api_call(cli, "PATCH", path, body, &project, &error))
		return vial_output_fail(cli, error);
	print_project(cli, project);
	return VIAL_EXIT_OK;
}

/* --- rm --- */

/* What ends with it: {"sandboxes": 3, "keys": 2, "snapshot_bytes": 4096}. */
static json_t *contents(VialCli *cli, const char *name, GError **error)
{
	g_autoptr(json_t) project = NULL, state = NULL;
	g_autofree char *itself = vial_api_path("/projects/%s", name), *path = vial_api_path("/projects/%s/quotas", name);
	g_autofree char *escaped = g_uri_escape_string(name, NULL, FALSE), *query = g_strconcat("&project=", escaped, NULL);
	/* Itself first: whoever may not end it is told so, and not that it has no quotas. */
	if (!vial_api_call(cli, "GET", itself, NULL, &project, error) || !vial_api_call(cli, "GET", path, NULL, &state, error))
		return NULL;
	g_autoptr(json_t) keys = vial_api_pages(cli, "/v1/keys", query, error);
	const json_t *used = json_object_get(state, "used");
	return keys ? json_pack("{s:I, s:I, s:I}", "sandboxes", (json_int_t)vial_api_integer(used, "sandboxes", 0), "keys",
	                        (json_int_t)json_array_size(keys), "snapshot_bytes", (json_int_t)vial_api_integer(used, "snapshot_bytes", 0))
	            : NULL;
}

static char *contents_text(const json_t *contents)
{
	gint64 sandboxes = vial_api_integer(contents, "sandboxes", 0), keys = vial_api_integer(contents, "keys", 0);
	g_autofree char *snapshots = vial_output_bytes(vial_api_integer(contents, "snapshot_bytes", 0));
	return g_strdup_printf("%" G_GINT64_FORMAT " sandbox%s, %" G_GINT64_FORMAT " key%s, %s of snapshots", sandboxes, sandboxes == 1 ? "" : "es",
	                       keys, keys == 1 ? "" : "s", snapshots);
}

static gboolean confirm(const char *name, const char *what)
{
	g_autofree char *clean = vial_sanitize_line(name);
	fprintf(stderr, "End the project %s with all in it (%s)? Its name cannot be used again. [y/N] ", clean, what);
	fflush(stderr);
	char answer[16] = "";
	return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int remove_one(VialCli *cli, const char *name, json_t *ended)
{
	GError *error = NULL;
	g_autofree char *path = vial_api_path("/projects/%s", name);
	g_autoptr(json_t) there = contents(cli, name, &error);
	if (!there && is_forced && g_error_matches(error, VIAL_HTTP_ERROR, 404)) {
		g_error_free(error);
		return VIAL_EXIT_OK;
	}
	if (!there)
		return vial_output_fail(cli, error);
	g_autofree char *what = contents_text(there);
	if (!is_forced && !confirm(name, what)) {
		vial_output_note(cli, "nothing was removed");
		return VIAL_EXIT_ERROR;
	}
	if (!vial_api_call(cli, "DELETE", path, NULL, NULL, &error))
		return vial_output_fail(cli, error);
	json_object_set_new(there, "name", json_string(name));
	json_array_append(ended, there);
	if (!cli->is_quiet && !cli->is_json)
		puts(name);
	if (!cli->is_json)
		vial_output_note(cli, "%s has ended, and with it %s; its records stay", name, what);
	return VIAL_EXIT_OK;
}

static int rm_run(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	g_autoptr(json_t) ended = json_array();
	if (!is_forced && !isatty(STDIN_FILENO))
		return vial_output_usage(cli, "nobody can be asked here: give --force to end a project with all in it");
	for (int i = 0; i < argc; i++) {
		int one = remove_one(cli, argv[i], ended);
		status = status ? status : one;
	}
	if (cli->is_json)
		vial_output_json(ended);
	return status;
}

static const VialVerb verbs[] = {
	{ "create", "NAME [OPTION...]", "Make a project and print its name", create_run, create_options, 1, 1, NULL, NULL },
	{ "ls", "", "List projects", ls_run, NULL, 0, 0, NULL, NULL },
	{ "show", "NAME", "Show all about one", show_run, NULL, 1, 1, "@project", NULL },
	{ "set", "NAME OPTION...", "Change its description, its quotas or a legal hold", set_run, set_options, 1, 1, "@project", NULL },
	{ "rm", "NAME...", "End projects with everything in them: keys, sandboxes, snapshots", rm_run, rm_options, 1, -1, "@project", NULL },
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL },
};

const VialSyntax vial_project_syntax = {
	.arguments = "create|ls|show|set|rm [ARGUMENT...]",
	.description = "Everything belongs to a project; `default` is there from the start. For an operator's key. What a project has and has left\n"
		       "shows `vial quota`.\n\n"
		       "  vial project create analytics --max-sandboxes 20 --max-memory-mb 65536 --network-modes disabled,filtered\n"
		       "  vial project set analytics --max-vcpu none --legal-hold",
	.verbs = verbs,
};
