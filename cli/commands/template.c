/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of a project's own: which there are, their builds, and their end. template_build.c makes them. */
#include "cli/commands/template.h"

#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/table.h"

static gboolean is_all, is_forced;

#define END                                                       \
	{                                                         \
		0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL \
	}

static const VialOption ls_options[] = {
	{ 'a', "all", VIAL_OPTION_FLAG, &is_all, NULL, "also those that everybody has", NULL },
	END,
};
static const VialOption rm_options[] = {
	{ 'f', "force", VIAL_OPTION_FLAG, &is_forced, NULL, "one that is gone already is no error", NULL },
	END,
};

static void add_row(VialTable *table, const json_t *template)
{
	const json_t *tags = json_object_get(template, "tags");
	GString *joined = g_string_new(NULL);
	/* What it takes of the disk beyond its image: layers, or the snapshot that it is. */
	gint64 size_bytes = vial_api_integer(template, json_object_get(template, "snapshot_id") ? "size_bytes" : "layers_bytes", -1);
	for (gsize i = 0; i < json_array_size(tags); i++) {
		const char *tag = json_string_value(json_array_get(tags, i));
		g_string_append_printf(joined, "%s%s", i ? " " : "", tag ? tag : "?");
	}
	vial_table_add(table, vial_api_string(template, "name"));
	vial_table_add_take(table, g_string_free(joined, FALSE));
	vial_table_add(table, json_is_true(json_object_get(template, "stale")) ? "stale" : vial_api_string(template, "status"));
	vial_table_add(table, vial_api_string(template, "base"));
	vial_table_add_take(table, size_bytes >= 0 ? vial_output_bytes(size_bytes) : NULL);
	vial_table_add_take(table, vial_output_age(vial_api_string(template, "created_at")));
}

static int ls_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL, shown = json_array();
	if (!vial_api_call(cli, "GET", "/v1/templates", NULL, &answer, &error))
		return vial_output_fail(cli, error);
	const json_t *templates = vial_api_list(answer, "templates");
	for (gsize i = 0; i < json_array_size(templates); i++)
		if (is_all || json_is_false(json_object_get(json_array_get(templates, i), "is_global")))
			json_array_append(shown, json_array_get(templates, i));
	if (cli->is_json) {
		vial_output_json(shown);
		return VIAL_EXIT_OK;
	}
	g_autoptr(VialTable) table = vial_table_new("NAME TAGS STATUS BASE >SIZE >AGE");
	for (gsize i = 0; i < json_array_size(shown); i++) {
		g_autofree char *name = vial_api_line(json_array_get(shown, i), "name");
		if (cli->is_quiet)
			puts(name);
		else
			add_row(table, json_array_get(shown, i));
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}

static int builds_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *path = argc ? vial_api_path("/templates/builds?name=%s", argv[0]) : vial_api_path("/templates/builds");
	if (!vial_api_call(cli, "GET", path, NULL, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(answer);
		return VIAL_EXIT_OK;
	}
	const json_t *builds = vial_api_list(answer, "builds");
	g_autoptr(VialTable) table = vial_table_new("BUILD TEMPLATE STATUS STEP >AGE ERROR");
	for (gsize i = 0; i < json_array_size(builds); i++) {
		const json_t *build = json_array_get(builds, i);
		g_autofree char *id = vial_api_line(build, "build_id");
		if (cli->is_quiet) {
			puts(id);
			continue;
		}
		vial_table_add(table, id);
		vial_table_add(table, vial_api_string(build, "template"));
		vial_table_add(table, vial_api_string(build, "status"));
		vial_table_add_take(
			table, g_strdup_printf("%d/%d", (int)vial_api_integer(build, "step", 0), (int)vial_api_integer(build, "steps_total", 0)));
		vial_table_add_take(table, vial_output_age(vial_api_string(build, "created_at")));
		vial_table_add(table, vial_api_string(build, "error"));
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}

static int show_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *path = vial_api_path("/templates/%s", argv[0]);
	if (!vial_api_call(cli, "GET", path, NULL, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(answer);
	else
		vial_fields_print(cli, answer);
	return VIAL_EXIT_OK;
}

static int rm_run(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	for (int i = 0; i < argc; i++) {
		GError *error = NULL;
		g_autofree char *path = vial_api_path("/templates/%s", argv[i]);
		gboolean is_gone = vial_api_call(cli, "DELETE", path, NULL, NULL, &error);
		if (!is_gone && is_forced && g_error_matches(error, VIAL_HTTP_ERROR, 404)) {
			g_clear_error(&error);
			continue;
		}
		if (!is_gone)
			status = vial_output_fail(cli, error);
		else if (!cli->is_quiet && !cli->is_json)
			puts(argv[i]);
	}
	return status;
}

static int cancel_run(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	for (int i = 0; i < argc; i++) {
		GError *error = NULL;
		g_autofree char *path = vial_api_path("/templates/builds/%s/cancel", argv[i]);
		if (!vial_api_call(cli, "POST", path, json_object(), NULL, &error))
			status = vial_output_fail(cli, error);
		else if (!cli->is_quiet && !cli->is_json)
			puts(argv[i]);
	}
	return status;
}

static const VialVerb verbs[] = {
	{ "build", "", "build one from a Dockerfile of RUN, ENV, WORKDIR and ARG, and follow it", vial_template_build_run,
	  vial_template_build_options, 0, 0, NULL, NULL },
	{ "rebuild", "NAME[:TAG]", "the same steps again, on what the base is now", vial_template_rebuild_run, vial_template_rebuild_options, 1, 1,
	  "@template", NULL },
	{ "ls", "", "those of the project", ls_run, ls_options, 0, 0, NULL, NULL },
	{ "show", "NAME[:TAG]", "all about one", show_run, NULL, 1, 1, "@template", NULL },
	{ "rm", "NAME[:TAG]...", "forget them; what was made of them lives on", rm_run, rm_options, 1, -1, "@template", NULL },
	{ "builds", "[NAME]", "the builds, newest first", builds_run, NULL, 0, 1, "@template", NULL },
	{ "logs", "BUILD", "what a build's steps have printed", vial_template_logs_run, vial_template_logs_options, 1, 1, NULL, NULL },
	{ "cancel", "BUILD...", "end builds", cancel_run, NULL, 1, -1, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL },
};

const VialSyntax vial_template_syntax = {
	.arguments = "VERB",
	.description = "Templates of the project's own. A build runs in a sandbox of its base; its log is shown, and the exit status says whether "
		       "the template is "
		       "ready. Ctrl-C stops watching, not the build.\n\n"
		       "  vial template build -f Dockerfile -t analytics:v2 --network open --warm imports.py\n"
		       "  TOKEN=... vial template build -t tools --secret TOKEN --build-arg VERSION=3\n"
		       "  vial create -t analytics",
	.verbs = verbs,
};
