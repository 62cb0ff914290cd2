/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: making them, changing them, new secrets. */
#include <stdio.h>
#include <string.h>

#include "cli/commands/key.h"
#include "cli/output.h"
#include "cli/quota_options.h"
#include "cli/times.h"

static char *role, *new_name, *expires, *form;
static gint64 overlap_seconds = -1;
static GPtrArray *templates, *agents, *networks, *sources;

#define ROLE_OPTION                                                                                                             \
	{                                                                                                                       \
		'r', "role", VIAL_OPTION_STRING, &role, "ROLE", "what it may do: viewer, runner, developer, admin or operator", \
			"viewer runner developer admin operator"                                                                \
	}
#define PROJECT_OPTION(text)                                                                    \
	{                                                                                       \
		'p', "project", VIAL_OPTION_STRING, &vial_key_project, "NAME", text, "@project" \
	}
#define NARROWING_OPTIONS                                                                                                                       \
	{                                                                                                                                       \
		0,                                                                                                                              \
		"expires",                                                                                                                      \
		VIAL_OPTION_STRING,                                                                                                             \
		&expires,                                                                                                                       \
		"TIME",                                                                                                                         \
		"when it ends: 90d, 2027-01-01, 2027-01-01T12:00:00Z or never",                                                                 \
		"30d 90d 365d never"                                                                                                            \
	},                                                                                                                                      \
		{ 0, "allow-template", VIAL_OPTION_LIST, &templates, "NAME", "only these templates; may be repeated; none: all", "@template" }, \
		{ 0, "allow-agent", VIAL_OPTION_LIST, &agents, "NAME", "only these agents; may be repeated; none: all", NULL },                 \
		{ 0,                                                                                                                            \
		  "allow-network",                                                                                                              \
		  VIAL_OPTION_LIST,                                                                                                             \
		  &networks,                                                                                                                    \
		  "MODE",                                                                                                                       \
		  "only these network modes; may be repeated; none: all",                                                                       \
		  "disabled filtered open none" },                                                                                              \
		{ 0, "allow-source", VIAL_OPTION_LIST, &sources, "CIDR", "only from these addresses; may be repeated; none: all", NULL },       \
		VIAL_QUOTA_OPTIONS
#define END                                                       \
	{                                                         \
		0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL \
	}

const VialOption vial_key_create_options[] = {
	ROLE_OPTION,
	PROJECT_OPTION("for this project, not our own (an operator's key)"),
	{ 0, "form", VIAL_OPTION_STRING, &form, "FORM", "how the secret begins: vial_, e2b_, pds_, pf_ or sk-, as other SDKs insist on",
	  "vial e2b pds pf sk" },
	NARROWING_OPTIONS,
	END,
};
const VialOption vial_key_set_options[] = {
	{ 0, "name", VIAL_OPTION_STRING, &new_name, "NAME", "another name", NULL },
	ROLE_OPTION,
	PROJECT_OPTION("look for it in this project"),
	NARROWING_OPTIONS,
	END,
};
const VialOption vial_key_rotate_options[] = {
	PROJECT_OPTION("look for it in this project"),
	{ 0, "overlap", VIAL_OPTION_DURATION, &overlap_seconds, "TIME", "how long the old secret works still: 1h if not said, 0: not at all", NULL },
	END,
};

/* --- options to JSON --- */

/* Replaces allow[field] by what was given, if anything was; `none` takes it away. */
static void set_list(json_t *allow, const char *field, const GPtrArray *given)
{
	if (!given)
		return;
	g_autoptr(json_t) list = json_array();
	for (guint i = 0; i < given->len; i++) {
		g_auto(GStrv) words = g_strsplit(given->pdata[i], ",", -1);
		for (int w = 0; words[w]; w++)
			if (*g_strstrip(words[w]) && strcmp(words[w], "none") != 0)
				json_array_append_new(list, json_string(words[w]));
	}
	if (json_array_size(list) > 0)
		json_object_set(allow, field, list);
	else
		json_object_del(allow, field);
}

static json_t *copy_of(const json_t *object, const char *name)
{
	const json_t *old = json_object_get(object, name);
	return json_is_object(old) ? json_deep_copy(old) : json_object();
}

/* The API takes `allow` and `limits` whole: what was not said stays as `old` has it (NULL: a new key). */
static gboolean set_narrowing(json_t *body, const json_t *old, GError **error)
{
	g_autoptr(json_t) allow = copy_of(old, "allow"), limits = copy_of(old, "limits"), quotas = vial_quota_from_options(error);
	const char *name;
	json_t *value;
	if (!quotas)
		return FALSE;
	set_list(allow, "templates", templates);
	set_list(allow, "agents", agents);
	set_list(allow, "network_modes", networks);
	set_list(allow, "source_cidrs", sources);
	json_object_foreach (quotas, name, value) {
		if (json_is_null(value))
			json_object_del(limits, name);
		else
			json_object_set(limits, name, value);
	}
	if (templates || agents || networks || sources)
		json_object_set_new(body, "allow", json_object_size(allow) > 0 ? json_incref(allow) : json_null());
	if (json_object_size(quotas) > 0)
		json_object_set_new(body, "limits", json_object_size(limits) > 0 ? json_incref(limits) : json_null());
	return TRUE;
}

static gboolean set_common(json_t *body, const json_t *old, GError **error)
{
	if (role)
		json_object_set_new(body, "role", json_string(role));
	if (expires && strcmp(expires, "never") == 0) {
		json_object_set_new(body, "expires_at", json_null());
	} else if (expires) {
		g_autofree char *time = vial_time_from_option("expires", expires, TRUE, error);
		if (!time)
			return FALSE;
		json_object_set_new(body, "expires_at", json_string(time));
	}
	return set_narrowing(body, old, error);
}

/* --- the verbs --- */

/* The secret alone on stdout; FALSE when there is none in the answer. */
static gboolean print_secret(VialCli *cli, const json_t *key)
{
	const char *secret = vial_api_string(key, "key");
	if (cli->is_json) {
		vial_output_json(key);
		return secret != NULL;
	}
	g_autofree char *clean = vial_sanitize_line(secret ? secret : "");
	if (secret)
		puts(clean);
	return secret != NULL;
}

static int fail_without_secret(VialCli *cli)
{
	return vial_output_fail(cli, g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s answered without a secret: is it viald?", cli->url));
}

static char *ending(const json_t *key)
{
	const char *time = vial_api_string(key, "expires_at");
	g_autofree char *local = vial_time_local(time);
	return time ? g_strdup_printf("until %s", local) : g_strdup("without an end");
}

int vial_key_create_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) body = json_pack("{s:s}", "name", argv[0]), key = NULL;
	if (!role)
		return vial_output_usage(cli, "say what the key may do with --role: viewer, runner, developer, admin or operator");
	if (!set_common(body, NULL, &error))
		return vial_output_fail_usage(cli, error);
	if (vial_key_project)
		json_object_set_new(body, "project", json_string(vial_key_project));
	if (form)
		json_object_set_new(body, "form", json_string(form));
	if (!vial_api_call(cli, "POST", "/v1/keys", json_incref(body), &key, &error))
		return vial_output_fail(cli, error);
	if (!print_secret(cli, key))
		return fail_without_secret(cli);
	g_autofree char *id = vial_api_text(key, "id"), *given = vial_api_text(key, "role"), *project = vial_api_text(key, "project");
	g_autofree char *until = ending(key);
	if (!cli->is_json)
		vial_output_note(cli, "the secret of key %s (%s), %s in project %s, %s; it is not shown again", argv[0], id, given, project, until);
	return VIAL_EXIT_OK;
}

int vial_key_set_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) body = json_object(), old = NULL, key = NULL;
	/* Looked at before viald is asked, so that a slip of the fingers costs nothing. */
	g_autoptr(json_t) check = json_object();
	if (!set_common(check, NULL, &error))
		return vial_output_fail_usage(cli, error);
	if (json_object_size(check) == 0 && !new_name)
		return vial_output_usage(cli, "say what to change, such as --role viewer, --expires 90d or --allow-template none");
	if (!(old = vial_key_find(cli, argv[0], &error)))
		return vial_output_fail(cli, error);
	set_common(body, old, NULL);
	if (new_name)
		json_object_set_new(body, "name", json_string(new_name));
	g_autofree char *id = vial_api_text(old, "id"), *path = vial_api_path("/keys/%s", id);
	if (!vial_api_call(cli, "PATCH", path, json_incref(body), &key, &error))
		return vial_output_fail(cli, error);
	vial_key_print(cli, key);
	return VIAL_EXIT_OK;
}

int vial_key_rotate_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) old = vial_key_find(cli, argv[0], &error), key = NULL;
	if (!old)
		return vial_output_fail(cli, error);
	json_t *body = json_object();
	if (overlap_seconds >= 0)
		json_object_set_new(body, "overlap_seconds", json_integer(overlap_seconds));
	g_autofree char *id = vial_api_text(old, "id"), *path = vial_api_path("/keys/%s/rotate", id);
	if (!vial_api_call(cli, "POST", path, body, &key, &error))
		return vial_output_fail(cli, error);
	if (!print_secret(cli, key))
		return fail_without_secret(cli);
	const char *until = vial_api_string(key, "previous_works_until");
	g_autofree char *local = vial_time_local(until);
	if (!cli->is_json && until && vial_output_time(until) > g_get_real_time() / G_USEC_PER_SEC)
		vial_output_note(cli, "the new secret of key %s (%s), not shown again; the old one works until %s", argv[0], id, local);
	else if (!cli->is_json)
		vial_output_note(cli, "the new secret of key %s (%s), not shown again; the old one does not work any more", argv[0], id);
	return VIAL_EXIT_OK;
}
