/* SPDX-License-Identifier: Apache-2.0 */
/* vial agent run, exec, sessions, end, forget: what is done in the sessions of an agent, and to them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/cell.h"
#include "cli/commands/agent.h"
#include "cli/exec_stream.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/times.h"

enum { CODE_MAX_BYTES = 8 * 1024 * 1024 };

static char *session, *user, *language_name, *out_dir, *cwd, *run_as, *state, *agent_name;
static GPtrArray *env;
static gint64 version, timeout_seconds;
static gboolean is_raw;

#define END                                                       \
	{                                                         \
		0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL \
	}
#define USER_OPTION(help)                                                    \
	{                                                                    \
		'u', "user", VIAL_OPTION_STRING, &user, "NAME", (help), NULL \
	}
#define VERSION_OPTION(help)                                               \
	{                                                                  \
		0, "version", VIAL_OPTION_INT, &version, "N", (help), NULL \
	}
#define CALL_OPTIONS                                                                                                                           \
	{ 's', "session", VIAL_OPTION_STRING, &session, "NAME", "in this session; else in the one called default", NULL },                     \
		USER_OPTION("on behalf of this user; users never share a sandbox"), VERSION_OPTION("of this version; else of the active one"), \
		{ 0, "timeout", VIAL_OPTION_DURATION, &timeout_seconds, "TIME", "end it after this time, with status 124", NULL },             \
	{                                                                                                                                      \
		0, "raw", VIAL_OPTION_FLAG, &is_raw, NULL, "let escape sequences through to our terminal", NULL                                \
	}

const VialOption vial_agent_run_options[] = {
	CALL_OPTIONS,
	{ 'l', "lang", VIAL_OPTION_STRING, &language_name, "NAME", "python, javascript (TypeScript too) or bash", "python javascript bash" },
	{ 'o', "out", VIAL_OPTION_STRING, &out_dir, "DIR", "save figures and changed files here", "@directory" },
	END,
};
const VialOption vial_agent_exec_options[] = {
	CALL_OPTIONS,
	{ 'w', "cwd", VIAL_OPTION_STRING, &cwd, "DIR", "in this directory of the sandbox", NULL },
	{ 'e', "env", VIAL_OPTION_LIST, &env, "K=V", "with this environment variable", NULL },
	{ 0, "run-as", VIAL_OPTION_STRING, &run_as, "NAME", "as this user of the sandbox", NULL },
	END,
};
const VialOption vial_agent_sessions_options[] = {
	USER_OPTION("only of this user"),
	VERSION_OPTION("only of this version"),
	{ 0, "state", VIAL_OPTION_STRING, &state, "STATE", "only whose sandbox is in this state", "creating running paused hibernated failed" },
	END,
};
const VialOption vial_agent_end_options[] = { USER_OPTION("of this user"), VERSION_OPTION("only of this version"), END };
const VialOption vial_agent_forget_options[] = {
	{ 0, "agent", VIAL_OPTION_STRING, &agent_name, "NAME", "only in this agent", "@agent" },
	END,
};

static void set_text(json_t *body, const char *name, const char *text)
{
	if (text)
		json_object_set_new(body, name, json_string(text));
}

static json_t *call_body(void)
{
	json_t *body = json_object();
	set_text(body, "session", session);
	set_text(body, "user", user);
	if (version)
		json_object_set_new(body, "version", json_integer(version));
	return body;
}

/* --- run --- */

static char *read_stdin(GError **error)
{
	g_autoptr(GString) code = g_string_new(NULL);
	char buffer[64 * 1024];
	for (gsize size; (size = fread(buffer, 1, sizeof buffer, stdin)) > 0 && code->len <= CODE_MAX_BYTES;)
		g_string_append_len(code, buffer, (gssize)size);
	if (code->len <= CODE_MAX_BYTES && g_utf8_validate_len(code->str, code->len, NULL))
		return g_string_free(g_steal_pointer(&code), FALSE);
	g_set_error_literal(error, VIAL_OPTIONS_ERROR, 0,
	                    code->len > CODE_MAX_BYTES ? "standard input is larger than 8 MiB: is it code?" : "standard input is not UTF-8 text");
	return NULL;
}

static int run_collected(VialCli *cli, VialCell *cell, const char *agent, json_t *body)
{
	GError *error = NULL;
	g_autoptr(json_t) execution = NULL;
	g_autofree char *path = vial_api_path("/agents/%s/run", agent);
	if (!vial_api_run(cli, path, body, &execution, &error))
		return vial_output_fail_remote(cli, error);
	vial_output_json(execution);
	cell->sandbox_id = vial_api_string(json_object_get(execution, "session"), "sandbox_id");
	if (out_dir && !vial_cell_save(cell, execution, &error))
		return vial_output_fail_remote(cli, error);
	if (json_is_true(json_object_get(execution, "timed_out")))
		return VIAL_EXIT_TIMEOUT;
	return (int)CLAMP(vial_api_integer(execution, "exit_code", 0), 0, 255);
}

int vial_agent_run_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	const char *language = language_name ? vial_cell_language(language_name) : NULL;
	if (language_name && !language)
		return vial_output_usage(cli, "\"%s\" is no language of ours: python, javascript or bash", language_name);
	g_autofree char *code = strcmp(argv[1], "-") == 0 ? read_stdin(&error) : g_strdup(argv[1]);
	if (!code)
		return vial_output_fail_usage(cli, error);
	json_t *body = call_body();
	set_text(body, "code", code);
	set_text(body, "language", language);
	if (timeout_seconds)
		json_object_set_new(body, "timeout_ms", json_integer(timeout_seconds * 1000));
	VialCell cell = { .cli = cli, .out_dir = out_dir, .is_raw = is_raw };
	if (cli->is_json)
		return run_collected(cli, &cell, argv[0], body);
	g_autofree char *path = vial_api_path("/agents/%s/run/stream", argv[0]);
	gboolean is_ok = vial_cell_run(&cell, path, body, &error);
	g_free(cell.found_id);
	return is_ok ? vial_cell_exit_status(&cell) : vial_output_fail_remote(cli, error);
}

/* --- exec --- */

static json_t *command_body(int argc, char **argv)
{
	json_t *body = call_body(), *words;
	if (argc == 1 && strpbrk(argv[0], " \t\n")) {
		set_text(body, "cmd", argv[0]);
	} else {
		words = json_array();
		for (int i = 0; i < argc; i++)
			json_array_append_new(words, json_string(argv[i]));
		json_object_set_new(body, "argv", words);
	}
	set_text(body, "cwd", cwd);
	set_text(body, "run_as", run_as);
	if (timeout_seconds)
		json_object_set_new(body, "timeout_seconds", json_integer(timeout_seconds));
	return body;
}

int vial_agent_exec_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) body = command_body(argc - 1, argv + 1), answer = NULL;
	json_t *variables = vial_api_object_from_pairs(env, "env", &error);
	if (!variables)
		return vial_output_fail_usage(cli, error);
	json_object_set_new(body, "env", variables);
	g_autofree char *path = vial_api_path(cli->is_json ? "/agents/%s/exec" : "/agents/%s/exec/stream", argv[0]);
	if (cli->is_json) {
		if (!vial_api_run(cli, path, json_incref(body), &answer, &error))
			return vial_output_fail_remote(cli, error);
		vial_output_json(answer);
		return vial_exec_status(cli, answer);
	}
	if (!isatty(STDOUT_FILENO)) /* a pipe wants the exact bytes */
		json_object_set_new(body, "encoding", json_string("base64"));
	return vial_exec_stream(cli, "POST", path, json_incref(body), is_raw);
}

/* --- sessions --- */

/* "&user=…&version=…", of what was given; "" for nothing. */
static char *query(void)
{
	g_autofree char *name = user ? g_uri_escape_string(user, NULL, FALSE) : NULL, *in = state ? g_uri_escape_string(state, NULL, FALSE) : NULL;
	GString *text = g_string_new(NULL);
	if (name)
		g_string_append_printf(text, "&user=%s", name);
	if (version)
		g_string_append_printf(text, "&version=%" G_GINT64_FORMAT, version);
	if (in)
		g_string_append_printf(text, "&state=%s", in);
	return g_string_free(text, FALSE);
}

static void add_row(VialTable *table, const json_t *one)
{
	const char *called = vial_api_string(one, "last_call_at"), *in = vial_api_string(one, "state");
	vial_table_add(table, vial_api_string(one, "id"));
	vial_table_add(table, vial_api_string(one, "user"));
	vial_table_add_take(table, vial_api_text(one, "version"));
	vial_table_add(table, in);
	vial_table_style(table, g_strcmp0(in, "failed") == 0 ? "31" : NULL);
	vial_table_add(table, vial_api_string(one, "sandbox_id"));
	vial_table_add_take(table, vial_output_age(vial_api_string(one, "created_at")));
	vial_table_add_take(table, called ? vial_time_distance(called) : g_strdup("never"));
}

/* Each once, whatever number of users and versions have it: they are words for `vial agent end`, which ends them in all versions. */
static void print_names(const json_t *sessions)
{
	g_autoptr(GHashTable) printed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	for (gsize i = 0; i < json_array_size(sessions); i++) {
		char *name = vial_api_line(json_array_get(sessions, i), "id");
		if (g_hash_table_add(printed, name))
			puts(name);
	}
}

int vial_agent_sessions_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autofree char *path = vial_api_path("/agents/%s/sessions", argv[0]), *which = query();
	g_autoptr(json_t) sessions = vial_api_pages(cli, path, which, &error);
	if (!sessions)
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(sessions);
		return VIAL_EXIT_OK;
	}
	if (cli->is_quiet) {
		print_names(sessions);
		return VIAL_EXIT_OK;
	}
	g_autoptr(VialTable) table = vial_table_new("SESSION USER >VERSION STATE SANDBOX >AGE CALLED");
	for (gsize i = 0; i < json_array_size(sessions); i++)
		add_row(table, json_array_get(sessions, i));
	vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}

int vial_agent_end_run(VialCli *cli, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	g_autofree char *which = query();
	for (int i = 1; i < argc; i++) {
		GError *error = NULL;
		g_autofree char *path = vial_api_path("/agents/%s/sessions/%s", argv[0], argv[i]);
		g_autofree char *full = *which ? g_strconcat(path, "?", which + 1, NULL) : g_strdup(path);
		g_autofree char *clean = vial_sanitize_line(argv[i]);
		if (!vial_api_call(cli, "DELETE", full, NULL, NULL, &error))
			status = vial_output_fail(cli, error);
		else if (!cli->is_quiet && !cli->is_json)
			puts(clean);
	}
	return status;
}

int vial_agent_forget_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *path = agent_name ? vial_api_path("/agents/%s/users/%s", agent_name, argv[0]) : vial_api_path("/users/%s", argv[0]);
	if (!vial_api_call(cli, "DELETE", path, NULL, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(answer);
	else
		vial_output_note(cli,
		                 "%" G_GINT64_FORMAT " sessions were ended, and %" G_GINT64_FORMAT " other sandboxes and %" G_GINT64_FORMAT
		                 " snapshots deleted that began with them; the record of what was done stays",
		                 vial_api_integer(answer, "sessions", 0), vial_api_integer(answer, "sandboxes", 0),
		                 vial_api_integer(answer, "snapshots", 0));
	return VIAL_EXIT_OK;
}
