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
/* A command with verbs: each of them has a run function of its own. */
#define VERBS(word, c_name, summary)                         \
	{                                                    \
		word, summary, NULL, &vial_##c_name##_syntax \
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
	HEADING("Agents"),
	VERBS("agent", agent, "Make agents and their versions, use them, see to their sessions"),
	HEADING("Projects, keys and the record"),
	VERBS("project", project, "Make, change and end projects"),
	VERBS("key", key, "Give out keys, change, rotate and revoke them"),
	VERBS("quota", quota, "Show and set what a project may have"),
	ROW("usage", usage, "Show what was used, by day, template, agent and key"),
	VERBS("audit", audit, "Read, export and verify the record of what was done"),
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
		if (command->syntax && strcmp(command->name, name) == 0)
			return command;
	return NULL;
}

const VialVerb *vial_verb_find(const VialCommand *command, const char *name)
{
	for (const VialVerb *verb = command->syntax->verbs; verb && verb->name; verb++)
		if (strcmp(verb->name, name) == 0)
			return verb;
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

static gboolean check_count(VialCli *cli, const VialSyntax *syntax, int argc, int *out_status)
{
	if (argc >= syntax->min_arguments && (syntax->max_arguments < 0 || argc <= syntax->max_arguments))
		return TRUE;
	const char *problem = argc < syntax->min_arguments ? "something is missing" : "that is one argument too many";
	const char *verb = cli->verb ? cli->verb->name : "";
	*out_status = vial_output_usage(cli, "%s: vial %s %s%s%s", problem, cli->command->name, verb, *verb ? " " : "", syntax->arguments);
	return FALSE;
}

/* --- verbs --- */

static gboolean fail_verb(VialCli *cli, const char *word, int *out_status)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	for (const VialVerb *verb = cli->command->syntax->verbs; verb->name; verb++)
		if (*verb->name)
			g_ptr_array_add(names, (gpointer)verb->name);
	g_ptr_array_add(names, NULL);
	g_autofree char *all = g_strjoinv(", ", (char **)names->pdata);
	const char *nearest = word ? vial_options_nearest(word, (const char *const *)names->pdata) : NULL;
	if (!word)
		*out_status = vial_output_usage(cli, "say what to do: vial %s with one of %s", cli->command->name, all);
	else if (nearest)
		*out_status = vial_output_usage(cli, "there is no `vial %s %s`; did you mean \"%s\"?", cli->command->name, word, nearest);
	else
		*out_status = vial_output_usage(cli, "there is no `vial %s %s`, only %s", cli->command->name, word, all);
	return FALSE;
}

/* Sets cli->verb and takes its word out of `args`. The word may stand behind options, of whichever verb. */
static gboolean choose_verb(VialCli *cli, GPtrArray *args, int *out_status)
{
	g_autoptr(GPtrArray) tables = g_ptr_array_new();
	for (const VialVerb *verb = cli->command->syntax->verbs; verb->name; verb++)
		if (verb->options)
			g_ptr_array_add(tables, (gpointer)verb->options);
	g_ptr_array_add(tables, (gpointer)global_options);
	g_ptr_array_add(tables, NULL);
	char **place = vial_options_first_positional((const VialOption *const *)tables->pdata, (char **)args->pdata);
	const VialVerb *bare = vial_verb_find(cli->command, "");
	cli->verb = place && **place ? vial_verb_find(cli->command, *place) : NULL;
	if (cli->verb)
		g_ptr_array_remove_index(args, (guint)(place - (char **)args->pdata));
	else if (bare && (!place || bare->max_arguments != 0))
		cli->verb = bare;
	else if (!option_help)
		return fail_verb(cli, place ? *place : NULL, out_status);
	return TRUE;
}

/* An option that another verb has is not unknown, only out of place. */
static char *explain_option(VialCli *cli, const char *message)
{
	GString *owners = g_string_new(NULL);
	for (const VialVerb *verb = cli->command->syntax->verbs; verb && verb->name; verb++)
		for (const VialOption *option = verb->options; option && option->name; option++) {
			g_autofree char *unknown = g_strdup_printf("there is no option --%s", option->name);
			gsize length = strlen(unknown);
			if (strncmp(message, unknown, length) == 0 && (message[length] == '\0' || message[length] == ';'))
				g_string_append_printf(owners, "%s`vial %s%s%s`", owners->len ? " and " : "", cli->command->name,
				                       *verb->name ? " " : "", verb->name);
		}
	g_autofree char *list = g_string_free(owners, FALSE);
	if (!*list)
		return g_strdup(message);
	return g_strdup_printf("%.*s here; it is for %s", (int)strcspn(message, ";"), message, list);
}

/* What a verb says of itself, in the form of a command. */
static VialSyntax verb_syntax(const VialVerb *verb)
{
	return (VialSyntax){
		.arguments = verb->arguments, .options = verb->options, .min_arguments = verb->min_arguments, .max_arguments = verb->max_arguments
	};
}

static int run_command(VialCli *cli, char **given)
{
	static const VialOption no_options[] = { { 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL } };
	g_autoptr(GPtrArray) args = g_ptr_array_new();
	for (; *given; given++) {
		/* Whoever asks for help need not know a verb yet. */
		option_help |= cli->command->syntax->verbs && (strcmp(*given, "--help") == 0 || strcmp(*given, "-h") == 0);
		g_ptr_array_add(args, *given);
	}
	g_ptr_array_add(args, NULL);
	int status;
	if (cli->command->syntax->verbs && !choose_verb(cli, args, &status))
		return status;
	VialSyntax syntax = cli->verb ? verb_syntax(cli->verb) : *cli->command->syntax;
	const VialOption *tables[] = { syntax.options ? syntax.options : no_options, global_options, NULL };
	g_autoptr(GPtrArray) positionals = g_ptr_array_new();
	g_autoptr(GError) error = NULL;
	gboolean is_parsed = vial_options_parse(tables, (char **)args->pdata, syntax.verbatim_after, positionals, &error);
	set_appearance(cli);
	if (option_help) {
		vial_help_command(cli, cli->command, cli->verb);
		return VIAL_EXIT_OK;
	}
	if (!is_parsed) {
		g_autofree char *sentence = explain_option(cli, error->message);
		return vial_output_usage(cli, "%s", sentence);
	}
	int argc = (int)positionals->len;
	g_ptr_array_add(positionals, NULL);
	if (!check_count(cli, &syntax, argc, &status))
		return status;
	if (!vial_config_load(cli, option_url, option_key, option_cacert, &error))
		return vial_output_usage(cli, "%s", error->message);
	cli->http = vial_http_new(cli->url, cli->key, cli->cacert);
	return (cli->verb ? cli->verb->run : cli->command->run)(cli, argc, (char **)positionals->pdata);
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
