/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

enum { CHILDREN_MAX = 32 };

static gint64 count = 1;
static GPtrArray *metadata;

static const VialOption options[] = {
	{ 'n', "count", VIAL_OPTION_INT, &count, "N", "so many children of one instant, up to 32", NULL },
	{ 'm', "metadata", VIAL_OPTION_LIST, &metadata, "K=V", "a label for the children", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_fork_syntax = {
	.arguments = "ID",
	.description = "Each child has the memory, processes and files of this instant, and goes its own way from there; so does the\n"
		       "parent. Prints the children's ids, one per line.",
	.options = options,
	.min_arguments = 1,
	.max_arguments = 1,
	.completes = "@sandbox",
};

/* Some children may have failed while others live: each is reported. */
static int print_children(VialCli *cli, const json_t *children, const json_t *failures)
{
	int status = VIAL_EXIT_OK;
	for (gsize i = 0; i < json_array_size(children); i++) {
		const char *id = vial_api_string(json_array_get(children, i), "id");
		if (id)
			puts(id);
	}
	for (gsize i = 0; i < json_array_size(failures); i++) {
		const char *sentence = json_string_value(json_array_get(failures, i));
		g_autofree char *clean = vial_sanitize_line(sentence ? sentence : "");
		status = vial_output_fail(cli, g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "a child failed: %s", clean));
	}
	return status;
}

int vial_fork_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	if (count < 1 || count > CHILDREN_MAX)
		return vial_output_usage(cli, "--count is from 1 to %d", CHILDREN_MAX);
	json_t *labels = vial_api_object_from_pairs(metadata, "metadata", &error);
	if (!labels)
		return vial_output_fail_usage(cli, error);
	g_autoptr(json_t) body = json_pack("{s:o}", "metadata", labels);
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	if (!id)
		return vial_output_fail(cli, error);
	if (!metadata)
		json_object_del(body, "metadata");
	if (count > 1)
		json_object_set_new(body, "count", json_integer(count));
	g_autofree char *path = vial_api_path(count > 1 ? "/sandboxes/%s/fork-tree" : "/sandboxes/%s/fork", id);
	if (!vial_api_call(cli, "POST", path, json_incref(body), &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(answer);
		return VIAL_EXIT_OK;
	}
	g_autoptr(json_t) single = json_pack("[O?]", json_object_get(answer, "sandbox"));
	return print_children(cli, count > 1 ? vial_api_list(answer, "children") : single, json_object_get(answer, "errors"));
}
