/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

static gboolean is_all, is_forced;

static const VialOption options[] = {
	{ 'a', "all", VIAL_OPTION_FLAG, &is_all, NULL, "all sandboxes, after asking", NULL },
	{ 'f', "force", VIAL_OPTION_FLAG, &is_forced, NULL, "with --all: do not ask; with ids: one that is gone already is no error", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_rm_syntax = {
	.arguments = "ID... | --all",
	.description = "A sandbox's files and state end with it.",
	.options = options,
	.max_arguments = -1,
	.completes = "@sandbox",
};

static gboolean confirm(gsize count)
{
	fprintf(stderr, "Remove all %" G_GSIZE_FORMAT " sandboxes? [y/N] ", count);
	fflush(stderr);
	char answer[16] = "";
	return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

/* Fills ids; FALSE when the command is over, with its status. */
static gboolean collect_all(VialCli *cli, GPtrArray *ids, int *out_status)
{
	GError *error = NULL;
	if (!is_forced && !isatty(STDIN_FILENO)) {
		*out_status = vial_output_usage(cli, "nobody can be asked here: give --force to remove all sandboxes");
		return FALSE;
	}
	g_autoptr(json_t) sandboxes = vial_api_sandboxes(cli, "", &error);
	if (!sandboxes) {
		*out_status = vial_output_fail(cli, error);
		return FALSE;
	}
	for (gsize i = 0; i < json_array_size(sandboxes); i++)
		g_ptr_array_add(ids, vial_api_text(json_array_get(sandboxes, i), "id"));
	if (ids->len == 0) {
		vial_output_note(cli, "there is no sandbox");
		*out_status = VIAL_EXIT_OK;
		return FALSE;
	}
	if (!is_forced && !confirm(ids->len)) {
		vial_output_note(cli, "nothing was removed");
		*out_status = VIAL_EXIT_ERROR;
		return FALSE;
	}
	return TRUE;
}

static int remove_each(VialCli *cli, GPtrArray *ids)
{
	int status = VIAL_EXIT_OK;
	guint count = ids->len;
	g_auto(GStrv) paths = g_new0(char *, count + 1);
	for (guint i = 0; i < count; i++)
		paths[i] = vial_api_path("/sandboxes/%s", g_ptr_array_index(ids, i));
	g_autofree json_t **answers = g_new0(json_t *, count + 1);
	g_autofree GError **errors = g_new0(GError *, count + 1);
	vial_api_call_many(cli, "DELETE", paths, count, NULL, VIAL_API_PARALLEL, answers, errors);
	g_autoptr(json_t) removed = json_array();
	for (guint i = 0; i < count; i++) {
		json_decref(answers[i]);
		if (is_forced && g_error_matches(errors[i], VIAL_HTTP_ERROR, 404)) {
			g_clear_error(&errors[i]);
			continue;
		}
		if (errors[i]) {
			status = vial_output_fail(cli, errors[i]);
			continue;
		}
		json_array_append_new(removed, json_string(g_ptr_array_index(ids, i)));
		if (!cli->is_quiet && !cli->is_json)
			puts(g_ptr_array_index(ids, i));
	}
	if (cli->is_json)
		vial_output_json(removed);
	return status;
}

int vial_rm_run(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func(g_free);
	if (is_all ? argc > 0 : argc == 0)
		return vial_output_usage(cli, "name the sandboxes to remove, or give --all");
	if (is_all && !collect_all(cli, ids, &status))
		return status;
	for (int i = 0; i < argc; i++) {
		GError *error = NULL;
		char *id = vial_api_sandbox_id(cli, argv[i], &error);
		if (id)
			g_ptr_array_add(ids, id);
		else if (is_forced && g_error_matches(error, VIAL_HTTP_ERROR, 404))
			g_clear_error(&error);
		else
			status = vial_output_fail(cli, error);
	}
	int removal = remove_each(cli, ids);
	return status ? status : removal;
}
