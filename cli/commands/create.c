/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/create_options.h"
#include "cli/output.h"

static gint64 ttl_seconds = -1, idle_seconds = -1; /* 0 means never, and is not the same as not given */
static char *on_idle;
static gboolean is_persistent;
static GPtrArray *env, *metadata;

static const VialOption options[] = {
	VIAL_CREATE_OPTIONS,
	{ 0, "ttl", VIAL_OPTION_DURATION, &ttl_seconds, "TIME", "end it after this time in any case, such as 90s, 15m, 2h, 1d; 0: never", NULL },
	{ 0, "idle", VIAL_OPTION_DURATION, &idle_seconds, "TIME", "act when nothing has been asked of it for so long; 0: never", NULL },
	{ 0, "on-idle", VIAL_OPTION_STRING, &on_idle, "ACTION", "what to do then: delete or hibernate", "delete hibernate" },
	{ 0, "persistent", VIAL_OPTION_FLAG, &is_persistent, NULL, "never let it expire: hibernate it instead", NULL },
	{ 'e', "env", VIAL_OPTION_LIST, &env, "K=V", "an environment variable for everything in it", NULL },
	{ 'm', "metadata", VIAL_OPTION_LIST, &metadata, "K=V", "a label, to find it again", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_create_syntax = {
	.arguments = "[OPTION...]",
	.description = "The id goes to standard output, so that it can be kept:\n"
		       "  id=$(vial create --ttl 1h)\n"
		       "  vial exec $id -- uname -a",
	.options = options,
};

static json_t *body_from_options(GError **error)
{
	g_autoptr(json_t) body = vial_create_body(error);
	json_t *variables = body ? vial_api_object_from_pairs(env, "env", error) : NULL;
	json_t *labels = variables ? vial_api_object_from_pairs(metadata, "metadata", error) : NULL;
	if (!labels) {
		json_decref(variables);
		return NULL;
	}
	json_object_set_new(body, "env", variables);
	json_object_set_new(body, "metadata", labels);
	if (ttl_seconds >= 0)
		json_object_set_new(body, "ttl_seconds", json_integer(ttl_seconds));
	if (idle_seconds >= 0)
		json_object_set_new(body, "idle_seconds", json_integer(idle_seconds));
	if (on_idle)
		json_object_set_new(body, "on_idle", json_string(on_idle));
	if (is_persistent)
		json_object_set_new(body, "persistent", json_true());
	return g_steal_pointer(&body);
}

int vial_create_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	json_t *body = body_from_options(&error);
	if (!body)
		return vial_output_fail_usage(cli, error);
	g_autoptr(json_t) sandbox = vial_create_sandbox(cli, body, &error);
	if (!sandbox)
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(sandbox);
	else
		puts(vial_api_string(sandbox, "id"));
	return VIAL_EXIT_OK;
}
