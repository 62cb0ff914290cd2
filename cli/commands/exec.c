/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/exec_stream.h"
#include "cli/output.h"
#include "cli/pty.h"
#include "cli/stdin_body.h"

static char *cwd, *user, *line;
static GPtrArray *env;
static gint64 timeout_seconds;
static gboolean is_background, wants_stdin, wants_no_stdin, wants_terminal, is_raw, keeps_undo;

static const VialOption options[] = {
	{ 'c', "command", VIAL_OPTION_STRING, &line, "LINE", "run this line by bash instead of a command and its arguments", NULL },
	{ 'w', "cwd", VIAL_OPTION_STRING, &cwd, "DIR", "in this directory of the sandbox", NULL },
	{ 'e', "env", VIAL_OPTION_LIST, &env, "K=V", "with this environment variable", NULL },
	{ 'u', "user", VIAL_OPTION_STRING, &user, "NAME", "as this user of the sandbox", NULL },
	{ 0, "timeout", VIAL_OPTION_DURATION, &timeout_seconds, "TIME", "end it after this time, with status 124", NULL },
	{ 'b', "background", VIAL_OPTION_FLAG, &is_background, NULL, "start it and print its process id", NULL },
	{ 'i', "stdin", VIAL_OPTION_FLAG, &wants_stdin, NULL, "give it our standard input, even if that is a terminal", NULL },
	{ 0, "no-stdin", VIAL_OPTION_FLAG, &wants_no_stdin, NULL, "do not read our standard input", NULL },
	{ 't', "tty", VIAL_OPTION_FLAG, &wants_terminal, NULL, "on a terminal of its own, as `vial sh`", NULL },
	{ 0, "undo", VIAL_OPTION_FLAG, &keeps_undo, NULL, "keep the state before it, for `vial undo`", NULL },
	{ 0, "raw", VIAL_OPTION_FLAG, &is_raw, NULL, "let escape sequences through to our terminal", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_exec_syntax = {
	.arguments = "ID [OPTION...] [--] COMMAND [ARGUMENT...]",
	.description = "Output comes as it is made, and vial ends with the status of the command: 124 when it ran into --timeout,\n"
		       "125 when vial itself failed. Ctrl-C ends the command. A single argument that contains a blank is run by\n"
		       "bash, as with -c. Standard input is passed on unless it is a terminal.\n"
		       "\n"
		       "  vial exec 4kq -- python3 -c 'print(6*7)'\n"
		       "  vial exec 4kq 'ls -l | sort'\n"
		       "  tar c src | vial exec 4kq -- tar x\n"
		       "  vial exec -it 4kq -- htop",
	.options = options,
	.verbatim_after = 2,
	.min_arguments = 1,
	.max_arguments = -1,
	.completes = "@sandbox",
};

static int run_streamed(VialCli *cli, const char *id, json_t *body)
{
	if (!isatty(STDOUT_FILENO)) /* a pipe wants the exact bytes; text would turn what is not UTF-8 into U+FFFD */
		json_object_set_new(body, "encoding", json_string("base64"));
	g_autofree char *path = vial_api_path("/sandboxes/%s/exec/stream", id);
	return vial_exec_stream(cli, "POST", path, body, is_raw);
}

/* --json and --background: one answer. */
static int run_collected(VialCli *cli, const char *id, json_t *body)
{
	GError *error = NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *path = vial_api_path("/sandboxes/%s/exec", id);
	if (!vial_api_run(cli, path, body, &answer, &error))
		return vial_output_fail_remote(cli, error);
	if (cli->is_json)
		vial_output_json(answer);
	else
		printf("%" G_GINT64_FORMAT "\n", vial_api_integer(answer, "pid", 0));
	if (is_background)
		return VIAL_EXIT_OK;
	return vial_exec_status(cli, answer);
}

static json_t *command_body(int argc, char **argv)
{
	json_t *body = json_object();
	if (line) {
		json_object_set_new(body, "cmd", json_string(line));
	} else if (argc == 1 && strpbrk(argv[0], " \t\n")) {
		json_object_set_new(body, "cmd", json_string(argv[0]));
	} else {
		json_t *list = json_array();
		for (int i = 0; i < argc; i++)
			json_array_append_new(list, json_string(argv[i]));
		json_object_set_new(body, "argv", list);
	}
	return body;
}

static gboolean set_options(json_t *body, GError **error)
{
	if (cwd)
		json_object_set_new(body, "cwd", json_string(cwd));
	if (user)
		json_object_set_new(body, "user", json_string(user));
	if (timeout_seconds)
		json_object_set_new(body, "timeout_seconds", json_integer(timeout_seconds));
	if (is_background)
		json_object_set_new(body, "background", json_true());
	if (keeps_undo)
		json_object_set_new(body, "undo", json_true());
	json_t *variables = vial_api_object_from_pairs(env, "env", error);
	if (!variables)
		return FALSE;
	json_object_set_new(body, "env", variables);
	return TRUE;
}

/* A pty takes a shell line: the arguments, each quoted. */
static int run_on_terminal(VialCli *cli, const char *id, int argc, char **argv)
{
	GString *quoted = g_string_new(NULL);
	for (guint i = 0; env && i < env->len; i++) {
		g_autofree char *pair = g_shell_quote(g_ptr_array_index(env, i));
		g_string_append_printf(quoted, "%s%s ", i == 0 ? "env " : "", pair);
	}
	if (line || (argc == 1 && strpbrk(argv[0], " \t\n"))) {
		g_autofree char *word = g_shell_quote(line ? line : argv[0]);
		g_string_append_printf(quoted, "bash -lc %s", word);
	} else {
		for (int i = 0; i < argc; i++) {
			g_autofree char *word = g_shell_quote(argv[i]);
			g_string_append_printf(quoted, "%s%s", i ? " " : "", word);
		}
	}
	VialPtyOptions pty = { .cmd = quoted->str, .cwd = cwd, .user = user };
	int status = vial_pty_run(cli, id, &pty);
	g_string_free(quoted, TRUE);
	return status;
}

int vial_exec_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	if (!line && argc < 2)
		return vial_output_usage(cli, "what shall run? vial exec %s", vial_exec_syntax.arguments);
	if (line && argc > 1)
		return vial_output_usage(cli, "give either -c or a command, not both");
	if (wants_terminal && (is_background || timeout_seconds || cli->is_json || keeps_undo))
		return vial_output_usage(cli, "--tty goes with neither --background nor --timeout nor --undo nor --json");
	g_autoptr(json_t) body = command_body(argc - 1, argv + 1);
	if (!set_options(body, &error))
		return vial_output_fail_usage(cli, error);
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	if (!id)
		return vial_output_fail_remote(cli, error);
	if (wants_terminal)
		return run_on_terminal(cli, id, argc - 1, argv + 1);
	gboolean has_input = wants_stdin || (!isatty(STDIN_FILENO) && !wants_no_stdin && !is_background);
	if (has_input && !vial_stdin_attach(cli, id, user, body, &error))
		return vial_output_fail_remote(cli, error);
	return cli->is_json || is_background ? run_collected(cli, id, g_steal_pointer(&body)) : run_streamed(cli, id, g_steal_pointer(&body));
}
