/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

const VialSyntax vial_version_syntax = {
	.arguments = "",
	.description = "A viald that does not answer is no error here.",
};

int vial_version_run(VialCli *cli, int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(json_t) health = NULL;
	vial_api_call(cli, "GET", "/v1/healthz", NULL, &health, &error);
	const char *server = vial_api_string(health, "version");
	if (cli->is_json) {
		g_autoptr(json_t) answer = json_pack("{s:s, s:s, s:s?}", "vial", VIAL_VERSION, "url", cli->url, "viald", server);
		vial_output_json(answer);
		return VIAL_EXIT_OK;
	}
	printf("vial %s\n", VIAL_VERSION);
	if (cli->is_quiet)
		return VIAL_EXIT_OK;
	g_autofree char *clean = vial_sanitize_line(server ? server : "(of an unknown version)");
	if (error)
		printf("viald does not answer at %s\n", cli->url);
	else
		printf("viald %s at %s\n", clean, cli->url);
	return VIAL_EXIT_OK;
}
