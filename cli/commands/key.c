/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: which there are, one of them, and its end. key_change.c makes and changes them. */
#include "cli/commands/key.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/quota_options.h"
#include "cli/table.h"
#include "cli/times.h"

enum { KEY_ID_SIZE = 20, SHOWN_MAX = 5 };

char *vial_key_project;
static gboolean is_all, is_names, is_forced;

#define PROJECT_OPTION                                                                                                           \
	{                                                                                                                        \
		'p', "project", VIAL_OPTION_STRING, &vial_key_project, "NAME", "of this project (an operator's key)", "@project" \
	}
#define END                                                       \
	{                                                         \
		0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL \
	}

static const VialOption ls_options[] = {
	PROJECT_OPTION,
	{ 'a', "all", VIAL_OPTION_FLAG, &is_all, NULL, "of all projects (an operator's key)", NULL },
	{ 0, "names", VIAL_OPTION_FLAG, &is_names, NULL, "only what to call them by: the name, or the id where the name is none or not the only one",
	  NULL },
	END,
};
static const VialOption show_options[] = { PROJECT_OPTION, END };
static const VialOption rm_options[] = {
	PROJECT_OPTION,
	{ 'f', "force", VIAL_OPTION_FLAG, &is_forced, NULL, "one that is gone already is no error", NULL },
	END,
};

/* --- finding --- */

static json_t *list(VialCli *cli, const char *project, GError **error)
{
	g_autofree char *escaped = project ? g_uri_escape_string(project, NULL, FALSE) : NULL;
	g_autofree char *query = g_strconcat(project ? "&project=" : "", escaped, NULL);
	return vial_api_pages(cli, "/v1/keys", query, error);
}

json_t *vial_key_all(VialCli *cli, GError **error)
{
	g_autofree char *own = NULL, *role = NULL;
	if (vial_key_project)
		return list(cli, vial_key_project, error);
	/* Asked first: to ask for all without being an operator is a refusal, and those are on record. */
	if (!vial_api_me(cli, &own, &role, error))
		return NULL;
	return list(cli, strcmp(role, "operator") == 0 ? "*" : NULL, error);
}

static gboolean is_id(const char *text)
{
	return strlen(text) == KEY_ID_SIZE && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") == KEY_ID_SIZE;
}

static void fail_many(GPtrArray *found, const char *name, GError **error)
{
	GString *ids = g_string_new(NULL);
	for (guint i = 0; i < found->len && i < SHOWN_MAX; i++) {
		g_autofree char *id = vial_api_line(found->pdata[i], "id"), *project = vial_api_line(found->pdata[i], "project");
		g_string_append_printf(ids, "%s%s (%s)", i ? ", " : "", id, project);
	}
	g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%u keys are named \"%s\": say which by its id: %s%s", found->len, name, ids->str,
	            found->len > SHOWN_MAX ? ", ..." : "");
	g_string_free(ids, TRUE);
}

json_t *vial_key_find(VialCli *cli, const char *given, GError **error)
{
	json_t *key = NULL;
	g_autoptr(GError) problem = NULL;
	g_autofree char *path = vial_api_path("/keys/%s", given);
	if (is_id(given)) {
		if (vial_api_call(cli, "GET", path, NULL, &key, &problem))
			return key;
		if (!g_error_matches(problem, VIAL_HTTP_ERROR, 404)) {
			g_propagate_error(error, g_steal_pointer(&problem));
			return NULL;
		}
	}
	g_autoptr(json_t) keys = vial_key_all(cli, error);
	if (!keys)
		return NULL;
	g_autoptr(GPtrArray) found = g_ptr_array_new();
	for (gsize i = 0; i < json_array_size(keys); i++)
		if (g_strcmp0(vial_api_string(json_array_get(keys, i), "name"), given) == 0)
			g_ptr_array_add(found, json_array_get(keys, i));
	if (found->len == 1)
		return json_incref(found->pdata[0]);
	if (found->len == 0)
		g_set_error(error, VIAL_HTTP_ERROR, 404, "there is no key with the name or id \"%s\"; `vial key ls` shows those there are", given);
	else
		fail_many(found, given, error);
	return NULL;
}

/* --- ls --- */

static gboolean is_plain(const char *name)
{
	return *name && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@+-") == strlen(name) && *name != '-';
}

/* For completion: words that a shell takes as they are, and that mean one key each. */
static void print_names(const json_t *keys)
{
	g_autoptr(GHashTable) counts = g_hash_table_new(g_str_hash, g_str_equal);
	for (gsize i = 0; i < json_array_size(keys); i++) {
		const char *name = vial_api_string(json_array_get(keys, i), "name");
		if (name)
			g_hash_table_insert(counts, (gpointer)name, GINT_TO_POINTER(GPOINTER_TO_INT(g_hash_table_lookup(counts, name)) + 1));
	}
	for (gsize i = 0; i < json_array_size(keys); i++) {
		const char *name = vial_api_string(json_array_get(keys, i), "name");
		g_autofree char *id = vial_api_line(json_array_get(keys, i), "id");
		gboolean is_good = name && is_plain(name) && GPOINTER_TO_INT(g_hash_table_lookup(counts, name)) == 1;
		puts(is_good ? name : id);
	}
}

static char *narrowing(const json_t *key)
{
	GString *text = g_string_new(NULL);
	const char *name;
	json_t *value;
	json_object_foreach (json_object_get(key, "allow"), name, value)
		g_string_append_printf(text, "%s%s", text->len ? ", " : "", name);
	if (json_object_size(json_object_get(key, "limits")) > 0)
		g_string_append(text, text->len ? ", limits" : "limits");
	return g_string_free(text, FALSE);
}

static void add_row(VialTable *table, const json_t *key)
{
	const char *expires = vial_api_string(key, "expires_at"), *used = vial_api_string(key, "last_used_at");
	gboolean is_over = expires && vial_output_time(expires) <= g_get_real_time() / G_USEC_PER_SEC;
	vial_table_add(table, vial_api_string(key, "id"));
	vial_table_add(table, vial_api_string(key, "name"));
	vial_table_add(table, vial_api_string(key, "role"));
	vial_table_add(table, vial_api_string(key, "project"));
	vial_table_add(table, vial_api_string(key, "hint"));
	vial_table_add_take(table, vial_output_age(vial_api_string(key, "created_at")));
	vial_table_add_take(table, used ? vial_time_distance(used) : g_strdup("never"));
	vial_table_add_take(table, is_over ? g_strdup("expired") : expires ? vial_time_distance(expires) : g_strdup("never"));
	vial_table_style(table, is_over ? "31" : NULL);
	vial_table_add_take(table, narrowing(key));
}

static int ls_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	if (is_all && vial_key_project)
		return vial_output_usage(cli, "--all and --project exclude each other");
	g_autoptr(json_t) keys = is_names ? vial_key_all(cli, &error) : list(cli, is_all ? "*" : vial_key_project, &error);
	if (!keys)
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(keys);
		return VIAL_EXIT_OK;
	}
	if (is_names) {
		print_names(keys);
		return VIAL_EXIT_OK;
	}
	g_autoptr(VialTable) table = vial_table_new("ID NAME ROLE PROJECT SECRET >AGE USED EXPIRES NARROWED");
	for (gsize i = 0; i < json_array_size(keys); i++) {
		g_autofree char *id = vial_api_line(json_array_get(keys, i), "id");
		if (cli->is_quiet)
			puts(id);
		else
			add_row(table, json_array_get(keys, i));
	}
	if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}

/* --- one --- */

void vial_key_print(VialCli *cli, const json_t *key)
{
	const char *name;
	json_t *value;
	if (cli->is_json) {
		vial_output_json(key);
		return;
	}
	json_object_foreach ((json_t *)key, name, value) {
		g_autofree char *text = vial_fields_text(key, name);
		if (strcmp(name, "allow") != 0 && strcmp(name, "limits") != 0 && strcmp(name, "key") != 0)
			vial_fields_line(cli, name, text, NULL);
	}
	const json_t *allow = json_object_get(key, "allow"), *limits = json_object_get(key, "limits");
	json_object_foreach ((json_t *)allow, name, value) {
		g_autofree char *text = vial_fields_text(allow, name), *label = g_strconcat("only ", name, NULL);
		vial_fields_line(cli, label, text, NULL);
	}
	json_object_foreach ((json_t *)limits, name, value) {
		g_autofree char *text = vial_quota_text(name, value);
		vial_fields_line(cli, name, text, NULL);
	}
}

static int show_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) key = vial_key_find(cli, argv[0], &error);
	if (!key)
		return vial_output_fail(cli, error);
	vial_key_print(cli, key);
	return VIAL_EXIT_OK;
}

static int rm_run(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	g_autoptr(json_t) revoked = json_array();
	for (int i = 0; i < argc; i++) {
		GError *error = NULL;
		g_autoptr(json_t) key = vial_key_find(cli, argv[i], &error);
		g_autofree char *id = key ? vial_api_line(key, "id") : NULL;
		g_autofree char *path = key ? vial_api_path("/keys/%s", id) : NULL;
		if (key && vial_api_call(cli, "DELETE", path, NULL, NULL, &error)) {
			json_array_append_new(revoked, json_string(id));
			if (!cli->is_quiet && !cli->is_json)
				puts(id);
		} else if (is_forced && g_error_matches(error, VIAL_HTTP_ERROR, 404)) {
			g_error_free(error);
		} else {
			status = vial_output_fail(cli, error);
		}
	}
	if (cli->is_json)
		vial_output_json(revoked);
	return status;
}

static const VialVerb verbs[] = {
	{ "create", "NAME --role ROLE [OPTION...]", "Make a key and print its secret, this once", vial_key_create_run, vial_key_create_options, 1, 1,
	  NULL, NULL },
	{ "ls", "[OPTION...]", "List the keys of our project, of another or of all", ls_run, ls_options, 0, 0, NULL, NULL },
	{ "show", "KEY", "Show all about one, but not its secret", show_run, show_options, 1, 1, "@key", NULL },
	{ "set", "KEY OPTION...", "Change its name, role, end or narrowing", vial_key_set_run, vial_key_set_options, 1, 1, "@key", NULL },
	{ "rotate", "KEY [OPTION...]", "Give it a new secret and print that, this once; the old one works for a while", vial_key_rotate_run,
	  vial_key_rotate_options, 1, 1, "@key", NULL },
	{ "rm", "KEY...", "Revoke keys: at once, and within a second for what they have open", rm_run, rm_options, 1, -1, "@key", NULL },
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL },
};

const VialSyntax vial_key_syntax = {
	.arguments = "create|ls|show|set|rotate|rm [ARGUMENT...]",
	.description =
		"A KEY is named by its name, if no other has it, or by its id. The secret alone goes to standard output, so that it can be kept; "
		"what\n"
		"else is to say goes to standard error. Roles, each with what those before it may: viewer, runner, developer, admin, operator.\n\n"
		"  key=$(vial key create ci --role runner --project analytics --expires 90d --allow-source 10.0.0.0/8)\n"
		"  vial key create agents --role developer --form e2b\n"
		"  vial key rotate ci --overlap 1d",
	.verbs = verbs,
};
