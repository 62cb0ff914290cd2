/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/status.h"

const VialSyntax vial_info_syntax = {
	.arguments = "ID...",
	.min_arguments = 1,
	.max_arguments = -1,
	.completes = "@sandbox",
};

/* Times get their distance from now, which is what one wants to know. */
static char *describe(const char *name, const json_t *sandbox)
{
	const json_t *value = json_object_get(sandbox, name);
	if (json_is_object(value) && g_strcmp0(name, "network") != 0)
		return vial_api_pairs(value);
	char *text = vial_api_text(sandbox, name);
	gint64 time = g_str_has_suffix(name, "_at") ? vial_output_time(text) : -1;
	if (time >= 0) {
		gint64 distance = time - g_get_real_time() / G_USEC_PER_SEC;
		g_autofree char *shown = vial_output_duration(ABS(distance));
		char *both = g_strdup_printf(distance > 0 ? "%s (in %s)" : "%s (%s ago)", text, shown);
		g_free(text);
		return both;
	}
	return text;
}

static void print_sandbox(VialCli *cli, const json_t *sandbox)
{
	const char *name;
	json_t *value;
	json_object_foreach ((json_t *)sandbox, name, value) {
		g_autofree char *text = describe(name, sandbox);
		g_autofree char *clean = vial_sanitize_line(text);
		g_autofree char *label = vial_sanitize_line(name);
		const char *style = strcmp(name, "status") == 0 ? vial_status_style(clean) : NULL;
		printf("%s%-14s%s  %s%s%s\n", vial_output_style(cli, "2"), label, vial_output_style(cli, "0"),
		       style ? vial_output_style(cli, style) : "", *clean ? clean : "-", style ? vial_output_style(cli, "0") : "");
	}
}

int vial_info_run(VialCli *cli, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		GError *error = NULL;
		g_autoptr(json_t) sandbox = NULL;
		g_autofree char *id = vial_api_sandbox_id(cli, argv[i], &error);
		g_autofree char *path = id ? vial_api_path("/sandboxes/%s", id) : NULL;
		if (!id || !vial_api_call(cli, "GET", path, NULL, &sandbox, &error))
			return vial_output_fail(cli, error);
		if (i > 0 && !cli->is_json)
			putchar('\n');
		if (cli->is_json)
			vial_output_json(sandbox);
		else
			print_sandbox(cli, sandbox);
	}
	return VIAL_EXIT_OK;
}
