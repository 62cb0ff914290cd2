/* SPDX-License-Identifier: Apache-2.0 */
/* vial agent create, version: what the sandboxes of an agent are to be. */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands/agent.h"
#include "cli/network.h"
#include "cli/output.h"

static char *description, *template_name, *tier, *network, *prompt_ref;
/* What is not given is left to viald; what is given and cannot be (no processor, no memory) is refused by it. */
static double cpu = -1;
static gint64 memory_mib = -1, rate_mbit = -1, max_connections = -1, idle_seconds = -1;
static GPtrArray *allow, *deny, *languages, *env, *metadata, *files, *pip, *npm;
static gboolean never_expire, is_activated;

#define VERSION_OPTIONS                                                                                                                       \
	{ 't', "template", VIAL_OPTION_STRING, &template_name, "NAME", "what its sandboxes are made from", "@template" },                     \
		{ 0, "tier", VIAL_OPTION_STRING, &tier, "NAME", "their size: processors x GB", "2x2 2x4 2x8 2x16 4x2 4x4 4x8 4x16" },         \
		{ 0, "cpu", VIAL_OPTION_NUMBER, &cpu, "N", "or virtual CPUs, such as 2 or 0.5", NULL },                                       \
		{ 0, "memory", VIAL_OPTION_MEMORY, &memory_mib, "SIZE", "and memory, such as 512M or 2G", NULL },                             \
		{ 0, "network", VIAL_OPTION_STRING, &network, "MODE", "disabled (the default), filtered or open", "disabled filtered open" }, \
		{ 0, "allow", VIAL_OPTION_LIST, &allow, "WHAT", "let out to this address, CIDR, name or *.name; means filtered", NULL },      \
		{ 0, "deny", VIAL_OPTION_LIST, &deny, "WHAT", "do not let out to this one", NULL },                                           \
		VIAL_NETWORK_LIMIT_OPTIONS(rate_mbit, max_connections, "to the network "),                                                    \
		{ 0, "idle", VIAL_OPTION_DURATION, &idle_seconds, "TIME", "a session ends after so long without a call, 5m at least", NULL }, \
		{ 0, "never-expire", VIAL_OPTION_FLAG, &never_expire, NULL, "a session sleeps then, and wakes with the next call", NULL },    \
		{ 'l', "lang", VIAL_OPTION_LIST, &languages, "NAME", "run only this language, or these", "python javascript bash" },          \
		{ 'e', "env", VIAL_OPTION_LIST, &env, "K=V", "with this environment variable", NULL },                                        \
		{ 0, "file", VIAL_OPTION_LIST, &files, "FILE:PATH", "with this file of ours at that path", "@file" },                         \
		{ 0, "pip", VIAL_OPTION_LIST, &pip, "PACKAGE", "with this Python package, installed in each new sandbox", NULL },             \
		{ 0, "npm", VIAL_OPTION_LIST, &npm, "PACKAGE", "with this one from npm", NULL },                                              \
		{ 0, "prompt-ref", VIAL_OPTION_STRING, &prompt_ref, "TEXT", "where its prompt is kept", NULL },                               \
	{                                                                                                                                     \
		0, "metadata", VIAL_OPTION_LIST, &metadata, "K=V", "a note to it and its sandboxes", NULL                                     \
	}
#define END                                                       \
	{                                                         \
		0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL \
	}

const VialOption vial_agent_create_options[] = {
	{ 0, "description", VIAL_OPTION_STRING, &description, "TEXT", "what it is for", NULL },
	VERSION_OPTIONS,
	END,
};
const VialOption vial_agent_version_options[] = {
	VERSION_OPTIONS,
	{ 'a', "activate", VIAL_OPTION_FLAG, &is_activated, NULL, "at once", NULL },
	END,
};

static void set_text(json_t *body, const char *name, const char *text)
{
	if (text)
		json_object_set_new(body, name, json_string(text));
}

static json_t *list_json(const GPtrArray *list)
{
	json_t *json = json_array();
	for (guint i = 0; list && i < list->len; i++)
		json_array_append_new(json, json_string(g_ptr_array_index(list, i)));
	return json;
}

static gboolean set_pairs(json_t *body, const char *name, const GPtrArray *pairs, GError **error)
{
	json_t *object = pairs ? vial_api_object_from_pairs(pairs, name, error) : NULL;
	if (pairs && !object)
		return FALSE;
	if (object)
		json_object_set_new(body, name, object);
	return TRUE;
}

/* "FILE:PATH": the last colon, since a file of ours may have one in its name. */
static gboolean add_file(json_t *list, const char *given, GError **error)
{
	const char *colon = strrchr(given, ':');
	if (!colon || colon == given || !colon[1]) {
		g_set_error(error, VIAL_OPTIONS_ERROR, 0, "--file takes FILE:PATH, and \"%s\" is not that", given);
		return FALSE;
	}
	g_autofree char *file = g_strndup(given, (gsize)(colon - given)), *bytes = NULL;
	g_autoptr(GError) problem = NULL;
	gsize size;
	if (!g_file_get_contents(file, &bytes, &size, &problem)) {
		g_set_error(error, VIAL_OPTIONS_ERROR, 0, "--file: %s", problem->message);
		return FALSE;
	}
	g_autofree char *encoded = g_base64_encode((const guchar *)bytes, size);
	json_array_append_new(list, json_pack("{s:s, s:s}", "path", colon + 1, "content_base64", encoded));
	return TRUE;
}

static gboolean set_files(json_t *body, GError **error)
{
	json_t *list = files ? json_array() : NULL;
	if (list)
		json_object_set_new(body, "files", list);
	for (guint i = 0; files && i < files->len; i++)
		if (!add_file(list, g_ptr_array_index(files, i), error))
			return FALSE;
	return TRUE;
}

json_t *vial_agent_version_body(GError **error)
{
	g_autoptr(json_t) body = json_object();
	gboolean has_rules = allow || deny || rate_mbit >= 0 || max_connections >= 0;

	set_text(body, "template", template_name);
	set_text(body, "tier", tier);
	set_text(body, "prompt_ref", prompt_ref);
	if (cpu >= 0)
		json_object_set_new(body, "cpu", json_real(cpu));
	if (memory_mib >= 0)
		json_object_set_new(body, "memory_mb", json_integer(memory_mib));
	if (network || has_rules)
		json_object_set_new(body, "network", vial_network_json(network ? network : "filtered", allow, deny, rate_mbit, max_connections));
	if (idle_seconds >= 0)
		json_object_set_new(body, "idle_seconds", json_integer(idle_seconds));
	if (never_expire)
		json_object_set_new(body, "never_expire", json_true());
	if (languages)
		json_object_set_new(body, "languages", list_json(languages));
	if (pip || npm)
		json_object_set_new(body, "packages", json_pack("{s:o, s:o}", "pip", list_json(pip), "npm", list_json(npm)));
	if (is_activated)
		json_object_set_new(body, "activate", json_true());
	if (!set_pairs(body, "env", env, error) || !set_pairs(body, "metadata", metadata, error) || !set_files(body, error))
		return NULL;
	return g_steal_pointer(&body);
}

static json_t *make_version(VialCli *cli, const char *agent, json_t *body, GError **error)
{
	json_t *version = NULL;
	g_autofree char *path = vial_api_path("/agents/%s/versions", agent);
	return vial_api_call(cli, "POST", path, body, &version, error) ? version : NULL;
}

int vial_agent_create_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) body = vial_agent_version_body(&error), agent = json_pack("{s:s}", "name", argv[0]);
	if (!body)
		return vial_output_fail_usage(cli, error);
	set_text(agent, "description", description);
	if (!vial_api_call(cli, "POST", "/v1/agents", json_incref(agent), NULL, &error))
		return vial_output_fail(cli, error);
	g_autofree char *path = vial_api_path("/agents/%s", argv[0]);
	g_autoptr(json_t) version = make_version(cli, argv[0], json_incref(body), &error), shown = NULL;
	if (!version) { /* one without a version is not what was asked for */
		vial_api_call(cli, "DELETE", path, NULL, NULL, NULL);
		return vial_output_fail(cli, error);
	}
	if (cli->is_json && !vial_api_call(cli, "GET", path, NULL, &shown, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(shown);
	else
		puts(argv[0]);
	return VIAL_EXIT_OK;
}

int vial_agent_version_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	json_t *body = vial_agent_version_body(&error);
	if (!body)
		return vial_output_fail_usage(cli, error);
	g_autoptr(json_t) version = make_version(cli, argv[0], body, &error);
	if (!version)
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(version);
	else
		printf("%" G_GINT64_FORMAT "\n", vial_api_integer(version, "version", 0));
	return VIAL_EXIT_OK;
}
