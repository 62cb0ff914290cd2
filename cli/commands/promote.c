/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

static gboolean keeps_siblings;

static const VialOption options[] = {
	{ 0, "keep-siblings", VIAL_OPTION_FLAG, &keeps_siblings, NULL, "do not remove the other forks", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_promote_syntax = {
	.arguments = "ID",
	.description = "Makes a fork a sandbox in its own right and removes the others of the same fork. Prints the ids removed.",
	.options = options,
	.min_arguments = 1,
	.max_arguments = 1,
	.completes = "@sandbox",
};

int vial_promote_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	g_autofree char *path = id ? vial_api_path("/sandboxes/%s/promote", id) : NULL;
	if (!id || !vial_api_call(cli, "POST", path, json_pack("{s:b}", "cleanup_siblings", !keeps_siblings), &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(answer);
	const json_t *deleted = json_object_get(answer, "deleted"), *failures = json_object_get(answer, "failures");
	for (gsize i = 0; !cli->is_json && !cli->is_quiet && i < json_array_size(deleted); i++) {
		const char *gone = json_string_value(json_array_get(deleted, i));
		puts(gone ? gone : "-");
	}
	gsize failed = json_is_object(failures) ? json_object_size(failures) : json_array_size(failures);
	if (failed == 0)
		return VIAL_EXIT_OK;
	return vial_output_fail(
		cli, g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%d of the other forks could not be removed: see `vial tree`", (int)failed));
}
