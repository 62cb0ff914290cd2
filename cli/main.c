/* SPDX-License-Identifier: Apache-2.0 */
/* vial, the command line of Vial: the table of sub-commands, the options they share, and the way from argv to one of them. */
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/output.h"

#define ROW(word, c_name, summary)                                          \
	{                                                                   \
		word, summary, vial_##c_name##_run, &vial_##c_name##_syntax \
	}
#define HEADING(text)                  \
	{                              \
		NULL, text, NULL, NULL \
	}

static const VialCommand commands[] = {
	HEADING("Sandboxes"),
	ROW("create", create, "Make a sandbox and print its id"),
	ROW("ls", ls, "List sandboxes"),
	ROW("info", info, "Show all about one sandbox"),
	ROW("rm", rm, "Remove sandboxes"),
	ROW("top", top, "Watch what sandboxes use"),
	ROW("logs", logs, "Show what a sandbox logged"),
	ROW("ports", ports, "List the ports that listen in a sandbox"),
	ROW("net", net, "Show, change and question the network of a sandbox"),
	HEADING("Run something"),
	ROW("exec", exec, "Run a command in a sandbox"),
	ROW("sh", sh, "Open a terminal in a sandbox"),
	ROW("cp", cp, "Copy files into and out of a sandbox"),
	ROW("ps", ps, "List the processes in a sandbox"),
	ROW("kill", kill, "Send a signal to a process in a sandbox"),
	ROW("attach", attach, "Follow a process that runs in the background"),
	ROW("run", run, "Run a file of Python, JavaScript or bash"),
	ROW("repl", repl, "Type code into a live kernel"),
	HEADING("Snapshots and forks"),
	ROW("pause", pause, "Stop sandboxes; their memory is kept"),
	ROW("resume", resume, "Let paused sandboxes go on"),
	ROW("hibernate", hibernate, "Put sandboxes to disk"),
	ROW("wake", wake, "Bring hibernated sandboxes back"),
	ROW("snapshot", snapshot, "Take a snapshot of a sandbox"),
	ROW("snapshots", snapshots, "List, show or remove snapshots"),
	ROW("fork", fork, "Make copies of a running sandbox"),
	ROW("promote", promote, "Keep one fork and remove the others"),
	ROW("tree", tree, "Show which sandbox was forked from which"),
	ROW("explore", explore, "Try candidates in forks side by side, keep the best"),
	HEADING("Vial itself"),
	ROW("templates", templates, "List what sandboxes can be made from"),
	ROW("doctor", doctor, "Say what this machine can do, and what is wrong with it"),
	ROW("version", version, "Show the versions of vial and viald"),
	ROW("completion", completion, "Print a completion script for your shell"),
	ROW("help", help, "Explain vial or one of its commands"),
	{ NULL, NULL, NULL, NULL },
};

static char *option_url, *option_key, *option_cacert;
static gboolean option_json, option_quiet, option_no_color, option_help, option_version;

static const VialOption global_options[] = {
	{ 0, "url", VIAL_OPTION_STRING, &option_url, "URL", "where viald is, also unix:/PATH (VIAL_URL; else http://127.0.0.1:7070)", NULL },
	{ 0, "key", VIAL_OPTION_SECRET, &option_key, "KEY", "the API key, or @FILE that holds it (VIAL_API_KEY)", NULL },
	{ 0, "cacert", VIAL_OPTION_STRING, &option_cacert, "FILE", "certificates to trust for https (VIAL_CACERT)", "@file" },
	{ 0, "json", VIAL_OPTION_FLAG, &option_json, NULL, "answer in JSON, as the API gave it", NULL },
	{ 'q', "quiet", VIAL_OPTION_FLAG, &option_quiet, NULL, "say less: lists become bare ids, notes are left out", NULL },
	{ 0, "no-color", VIAL_OPTION_FLAG, &option_no_color, NULL, "no colours (also NO_COLOR)", NULL },
	{ 'h', "help", VIAL_OPTION_FLAG, &option_help, NULL, "explain the command", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

/* Only before a command: `vial --version`, since everybody tries it. */
static const VialOption early_options[] = {
	{ 'V', "version", VIAL_OPTION_FLAG, &option_version, NULL, "show the versions", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialCommand *vial_commands(void)
{
	return commands;
}

const VialOption *vial_global_options(void)
{
	return global_options;
}

const VialCommand *vial_command_find(const char *name)
{
	for (const VialCommand *command = commands; command->summary; command++)
		if (command->run && strcmp(command->name, name) == 0)
			return command;
	return NULL;
}

static void set_appearance(VialCli *cli)
{
	const char *term = g_getenv("TERM");
	gboolean wants_color = !option_no_color && !g_getenv("NO_COLOR") && g_strcmp0(term, "dumb") != 0;
	cli->has_color_out = wants_color && isatty(STDOUT_FILENO) && !option_json;
	cli->has_color_err = wants_color && isatty(STDERR_FILENO);
	cli->is_json = option_json;
	cli->is_quiet = option_quiet;
}

static gboolean check_count(VialCli *cli, int argc, int *out_status)
{
	const VialSyntax *syntax = cli->command->syntax;
	if (argc >= syntax->min_arguments && (syntax->max_arguments < 0 || argc <= syntax->max_arguments))
		return TRUE;
	const char *problem = argc < syntax->min_arguments ? "something is missing" : "that is one argument too many";
	*out_status = vial_output_usage(cli, "%s: vial %s %s", problem, cli->command->name, syntax->arguments);
	return FALSE;
}

static int run_command(VialCli *cli, char **args)
{
	static const VialOption no_options[] = { { 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL } };
	const VialSyntax *syntax = cli->command->syntax;
	const VialOption *tables[] = { syntax->options ? syntax->options : no_options, global_options, NULL };
	g_autoptr(GPtrArray) positionals = g_ptr_array_new();
	g_autoptr(GError) error = NULL;
	gboolean is_parsed = vial_options_parse(tables, args, syntax->verbatim_after, positionals, &error);
	set_appearance(cli);
	if (option_help) {
		vial_help_command(cli, cli->command);
		return VIAL_EXIT_OK;
	}
	if (!is_parsed)
		return vial_output_usage(cli, "%s", error->message);
	int status, argc = (int)positionals->len;
	g_ptr_array_add(positionals, NULL);
	if (!check_count(cli, argc, &status))
		return status;
	if (!vial_config_load(cli, option_url, option_key, option_cacert, &error))
		return vial_output_usage(cli, "%s", error->message);
	cli->http = vial_http_new(cli->url, cli->key, cli->cacert);
	return cli->command->run(cli, argc, (char **)positionals->pdata);
}

/* Everything goes into JSON or a URL, where only UTF-8 is text. */
static gboolean check_encoding(VialCli *cli, char **argv, int *out_status)
{
	for (; *argv; argv++)
		if (!g_utf8_validate(*argv, -1, NULL)) {
			*out_status = vial_output_usage(cli, "an argument is not valid UTF-8");
			return FALSE;
		}
	return TRUE;
}

static int dispatch(VialCli *cli, char **argv)
{
	int status;
	if (!check_encoding(cli, argv, &status))
		return status;
	const VialOption *tables[] = { global_options, early_options, NULL };
	g_autoptr(GPtrArray) words = g_ptr_array_new();
	g_autoptr(GError) error = NULL;
	gboolean is_parsed = vial_options_parse(tables, argv + 1, 1, words, &error);
	set_appearance(cli);
	if (!is_parsed)
		return vial_output_usage(cli, "%s", error->message);
	g_ptr_array_add(words, NULL);
	char **args = (char **)words->pdata;
	if (!args[0] && !option_version) {
		vial_help_overview(cli);
		return option_help || argv[1] == NULL ? VIAL_EXIT_OK : VIAL_EXIT_USAGE;
	}
	const char *name = args[0] ? args[0] : "version";
	cli->command = vial_command_find(name);
	if (!cli->command)
		return vial_help_unknown(cli, name);
	return run_command(cli, args[0] ? args + 1 : args);
}

int main(int argc, char **argv)
{
	setlocale(LC_ALL, "");
	vial_interrupt_install();
	VialCli cli = { 0 };
	int status = dispatch(&cli, argv);
	if (fflush(stdout) != 0 && status == VIAL_EXIT_OK)
		status = VIAL_EXIT_PIPE;
	vial_http_free(cli.http);
	g_free(cli.url);
	g_free(cli.key);
	g_free(cli.key_source);
	g_free(cli.cacert);
	return status;
}
