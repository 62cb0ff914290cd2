/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion scripts out of the command table. Values that only viald knows (@sandbox, @template, @snapshot, @agent, @project, @key) are
 * asked for while completing, through `vial … --quiet`, which prints bare names. Where a command has verbs, what is offered
 * depends on both: "audit tail"; what stands for no verb is "audit ".
 */
#include <stdio.h>
#include <string.h>

#include "cli/help.h"
#include "cli/quota_options.h"

#define EACH_COMMAND(command)                                                           \
	for (const VialCommand *command = vial_commands(); command->summary; command++) \
		if (command->syntax)
#define EACH_VERB(verb, command) for (const VialVerb *verb = (command)->syntax->verbs; verb && verb->name; verb++)
#define EACH_OPTION(option, table) for (const VialOption *option = (table); option && option->name; option++)

/* The shell command that lists what an '@' word stands for; NULL for files and directories. */
static const char *lister(const char *values)
{
	if (strcmp(values, "@sandbox") == 0)
		return "vial ls --quiet 2>/dev/null";
	if (strcmp(values, "@template") == 0)
		return "vial templates --quiet 2>/dev/null";
	if (strcmp(values, "@snapshot") == 0)
		return "vial snapshots --quiet 2>/dev/null";
	if (strcmp(values, "@agent") == 0)
		return "vial agent ls --quiet 2>/dev/null";
	if (strcmp(values, "@project") == 0)
		return "vial project ls --quiet 2>/dev/null";
	if (strcmp(values, "@key") == 0)
		return "vial key ls --names 2>/dev/null";
	return NULL;
}

/* Words that stand for themselves, whatever '@' word they come under; NULL when only the shell or viald knows them. To be freed. */
static char *plain_words(const char *values)
{
	if (strcmp(values, "@quota") == 0)
		return vial_quota_names("=");
	return values[0] == '@' ? NULL : g_strdup(values);
}

/* The verbs' names, and what else may stand in their place. To be freed. */
static char *verb_words(const VialCommand *command)
{
	GString *words = g_string_new(NULL);
	EACH_VERB(verb, command)
	if (*verb->name)
		g_string_append_printf(words, "%s%s", words->len ? " " : "", verb->name);
	return g_string_free(words, FALSE);
}

static void print_names(void)
{
	const char *separator = "";
	EACH_COMMAND(command)
	{
		printf("%s%s", separator, command->name);
		separator = " ";
	}
}

static void print_option_words(const VialOption *table)
{
	EACH_OPTION(option, table)
	printf(" --%s", option->name);
}

/* --- bash --- */

static void print_bash_reply(const char *values)
{
	const char *command = lister(values);
	g_autofree char *words = plain_words(values);
	if (strcmp(values, "@command") == 0) {
		fputs("COMPREPLY=($(compgen -W '", stdout);
		print_names();
		fputs("' -- \"$cur\"))", stdout);
	} else if (strcmp(values, "@file") == 0) {
		fputs("COMPREPLY=($(compgen -f -- \"$cur\"))", stdout);
	} else if (strcmp(values, "@directory") == 0) {
		fputs("COMPREPLY=($(compgen -d -- \"$cur\"))", stdout);
	} else if (command) {
		printf("COMPREPLY=($(compgen -W \"$(%s)\" -- \"$cur\"))", command);
	} else {
		printf("COMPREPLY=($(compgen -W '%s' -- \"$cur\"))", words);
	}
}

static void print_bash_values(const char *context, const VialOption *table)
{
	EACH_OPTION(option, table)
	{
		if (option->type == VIAL_OPTION_FLAG)
			continue;
		printf("\t%s:--%s", context, option->name);
		if (option->letter)
			printf("|%s:-%c", context, option->letter);
		fputs(") ", stdout);
		print_bash_reply(option->values ? option->values : "");
		puts("; return ;;");
	}
}

static void print_bash_options(const char *context, const VialOption *own)
{
	printf("\t%s:*:-*) COMPREPLY=($(compgen -W '", context);
	print_option_words(own);
	EACH_OPTION(option, vial_global_options())
	if (!vial_options_have(own, option->name))
		printf(" --%s", option->name);
	puts("' -- \"$cur\")) ;;");
}

static void print_bash_arguments(const char *context, const char *first, const char *more)
{
	if (first) {
		printf("\t%s:%s:*) ", context, more ? "0" : "*");
		print_bash_reply(first);
		puts(" ;;");
	}
	if (more) {
		printf("\t%s:*:*) ", context);
		print_bash_reply(more);
		puts(" ;;");
	}
}

/* What may follow the command itself: a verb, and what it does without one. */
static void print_bash_bare(const VialCommand *command)
{
	const VialVerb *bare = vial_verb_find(command, "");
	const char *command_line = bare && bare->completes ? lister(bare->completes) : NULL;
	g_autofree char *words = verb_words(command);
	g_autofree char *context = g_strdup_printf("'%s '", command->name);
	print_bash_options(context, bare ? bare->options : NULL);
	if (command_line)
		printf("\t%s:*) COMPREPLY=($(compgen -W \"%s $(%s)\" -- \"$cur\")) ;;\n", context, words, command_line);
	else
		printf("\t%s:*) COMPREPLY=($(compgen -W '%s' -- \"$cur\")) ;;\n", context, words);
}

static void print_bash_command(const VialCommand *command)
{
	if (!command->syntax->verbs) {
		print_bash_options(command->name, command->syntax->options);
		print_bash_arguments(command->name, command->syntax->completes, NULL);
		return;
	}
	EACH_VERB(verb, command)
	{
		g_autofree char *context = g_strdup_printf("'%s %s'", command->name, verb->name);
		if (!*verb->name)
			continue;
		print_bash_options(context, verb->options);
		print_bash_arguments(context, verb->completes, verb->completes_more);
	}
	print_bash_bare(command);
}

/* The words after which a value comes, so that it is not taken for a verb. */
static void print_bash_value_words(void)
{
	fputs("\t\t--url|--key|--cacert", stdout);
	EACH_COMMAND(command)
	EACH_VERB(verb, command)
	EACH_OPTION(option, verb->options)
	if (option->type != VIAL_OPTION_FLAG) {
		printf("|--%s", option->name);
		if (option->letter)
			printf("|-%c", option->letter);
	}
	puts(") ((i++)) ;;");
}

static void print_bash_contexts(void)
{
	const char *separator = "\t";
	puts("\tcase $cmd in");
	EACH_COMMAND(command)
	if (command->syntax->verbs) {
		printf("%s%s", separator, command->name);
		separator = "|";
	}
	puts(") cmd=\"$cmd $verb\" ;;\n"
	     "\t*) [[ $verb ]] && ((count++)) ;;\n"
	     "\tesac");
}

void vial_help_completion_bash(void)
{
	puts("# vial completion for bash: source <(vial completion bash)\n"
	     "_vial() {\n"
	     "\tlocal cur prev word cmd= verb= count=0 i\n"
	     "\tcur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	     "\t\tword=${COMP_WORDS[i]}\n"
	     "\t\tcase $word in\n"
	     "\t\t--) return ;;");
	print_bash_value_words();
	puts("\t\t-*) ;;\n"
	     "\t\t*) if [[ ! $cmd ]]; then cmd=$word; elif [[ ! $verb ]]; then verb=$word; else ((count++)); fi ;;\n"
	     "\t\tesac\n"
	     "\tdone");
	print_bash_contexts();
	puts("\tcase $cmd:$prev in");
	EACH_COMMAND(command)
	{
		print_bash_values(command->name, command->syntax->options);
		EACH_VERB(verb, command)
		{
			g_autofree char *context = g_strdup_printf("'%s %s'", command->name, verb->name);
			print_bash_values(context, verb->options);
		}
	}
	print_bash_values("*", vial_global_options());
	puts("\tesac\n"
	     "\tcase $cmd:$count:$cur in");
	EACH_COMMAND(command)
	print_bash_command(command);
	fputs("\t:*:-*) COMPREPLY=($(compgen -W '", stdout);
	print_option_words(vial_global_options());
	fputs("' -- \"$cur\")) ;;\n\t:*) COMPREPLY=($(compgen -W '", stdout);
	print_names();
	puts("' -- \"$cur\")) ;;\n"
	     "\tesac\n"
	     "\t[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null\n"
	     "\treturn 0\n"
	     "}\n"
	     "complete -o default -F _vial vial");
}

/* --- zsh --- */

/* Inside single quotes and a _arguments spec, both of which have letters of their own. */
static char *zsh_text(const char *text)
{
	GString *out = g_string_new(NULL);
	for (; *text; text++) {
		if (*text == '\'')
			g_string_append(out, "'\\''");
		else if (strchr("[]:\\", *text))
			g_string_append_c(out, '\\'), g_string_append_c(out, *text);
		else
			g_string_append_c(out, *text);
	}
	return g_string_free(out, FALSE);
}

static void print_zsh_action(const char *values)
{
	const char *command = values ? lister(values) : NULL;
	g_autofree char *words = values ? plain_words(values) : NULL;
	if (!values)
		return;
	if (command)
		printf("{compadd -- ${(f)\"$(%s)\"}}", command);
	else if (strcmp(values, "@file") == 0)
		fputs("_files", stdout);
	else if (strcmp(values, "@directory") == 0)
		fputs("_files -/", stdout);
	else if (strcmp(values, "@command") == 0)
		fputs("_vial_commands", stdout);
	else
		printf("(%s)", words);
}

/* Those of `table` but for what `own` has itself (`vial audit verify --key`). */
static void print_zsh_options(const VialOption *table, const VialOption *own)
{
	EACH_OPTION(option, table)
	{
		if (vial_options_have(own, option->name))
			continue;
		g_autofree char *help = zsh_text(option->help);
		const char *repeat = option->type == VIAL_OPTION_LIST ? "*" : "";
		for (int is_letter = 0; is_letter <= (option->letter ? 1 : 0); is_letter++) {
			if (is_letter)
				printf(" \\\n\t\t\t'%s-%c[%s]", repeat, option->letter, help);
			else
				printf(" \\\n\t\t\t'%s--%s[%s]", repeat, option->name, help);
			if (option->type != VIAL_OPTION_FLAG) {
				g_autofree char *value_name = zsh_text(option->value_name);
				printf(":%s:", value_name);
				print_zsh_action(option->values);
			}
			putchar('\'');
		}
	}
}

static void print_zsh_arguments(const VialOption *own, const char *first, const char *more)
{
	fputs("\t\t_arguments", stdout);
	print_zsh_options(own, NULL);
	print_zsh_options(vial_global_options(), own);
	if (more) {
		fputs(" \\\n\t\t\t'1:argument:", stdout);
		print_zsh_action(first);
		putchar('\'');
	}
	fputs(" \\\n\t\t\t'*:argument:", stdout);
	print_zsh_action(more ? more : first);
	puts("' ;;");
}

static void print_zsh_command(const VialCommand *command)
{
	const VialVerb *bare = command->syntax->verbs ? vial_verb_find(command, "") : NULL;
	if (!command->syntax->verbs) {
		print_zsh_arguments(command->syntax->options, command->syntax->completes, NULL);
		return;
	}
	fputs("\t\tlocal -a verbs=(", stdout);
	EACH_VERB(verb, command)
	if (*verb->name) {
		g_autofree char *summary = zsh_text(verb->summary);
		printf("'%s:%s' ", verb->name, summary);
	}
	fputs(")\n\t\t_arguments -C", stdout);
	print_zsh_options(bare ? bare->options : NULL, NULL);
	print_zsh_options(vial_global_options(), bare ? bare->options : NULL);
	puts(" \\\n\t\t\t'1:verb:{_describe verb verbs}' '*::argument:->verb'\n"
	     "\t\t[[ $state == verb ]] || return\n\t\tcase $line[1] in");
	EACH_VERB(verb, command)
	if (*verb->name) {
		printf("\t\t%s)\n\t", verb->name);
		print_zsh_arguments(verb->options, verb->completes, verb->completes_more);
	}
	puts("\t\tesac ;;");
}

void vial_help_completion_zsh(void)
{
	puts("#compdef vial\n"
	     "# vial completion for zsh: vial completion zsh > \"${fpath[1]}/_vial\"\n"
	     "_vial_commands() {\n\tlocal -a commands=(");
	EACH_COMMAND(command)
	{
		g_autofree char *summary = zsh_text(command->summary);
		printf("\t\t'%s:%s'\n", command->name, summary);
	}
	fputs("\t)\n\t_describe command commands\n}\n"
	      "_vial() {\n\tlocal curcontext=$curcontext state line\n\t_arguments -C",
	      stdout);
	print_zsh_options(vial_global_options(), NULL);
	puts(" \\\n\t\t\t'1:command:_vial_commands' '*::argument:->argument'\n"
	     "\t[[ $state == argument ]] || return\n\tcase $line[1] in");
	EACH_COMMAND(command)
	{
		printf("\t%s)\n", command->name);
		print_zsh_command(command);
	}
	puts("\tesac\n}\n"
	     "if [[ $funcstack[1] == _vial ]]; then _vial \"$@\"; else compdef _vial vial; fi");
}

/* --- fish --- */

static char *fish_text(const char *text)
{
	GString *out = g_string_new(NULL);
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			g_string_append_c(out, '\\');
		g_string_append_c(out, *text);
	}
	return g_string_free(out, FALSE);
}

static void print_fish_values(const char *values)
{
	const char *command = values ? lister(values) : NULL;
	g_autofree char *words = values ? plain_words(values) : NULL;
	if (!values || strcmp(values, "@command") == 0)
		return;
	if (command)
		printf(" -fa '(%s)'", command);
	else if (strcmp(values, "@directory") == 0)
		fputs(" -fa '(__fish_complete_directories)'", stdout);
	else if (strcmp(values, "@file") == 0)
		fputs(" -F", stdout);
	else
		printf(" -fa '%s'", words);
}

static void print_fish_options(const char *condition, const VialOption *table)
{
	EACH_OPTION(option, table)
	{
		g_autofree char *help = fish_text(option->help);
		printf("complete -c vial%s -l %s", condition, option->name);
		if (option->letter)
			printf(" -s %c", option->letter);
		if (option->type != VIAL_OPTION_FLAG) {
			fputs(" -r", stdout);
			print_fish_values(option->values);
		}
		printf(" -d '%s'\n", help);
	}
}

static void print_fish_arguments(const char *condition, const char *values)
{
	if (!values || strcmp(values, "@command") == 0)
		return;
	printf("complete -c vial%s", condition);
	print_fish_values(values);
	putchar('\n');
}

static void print_fish_verbs(const VialCommand *command)
{
	g_autofree char *bare = g_strdup_printf(" -n '__vial_is %s \"\"'", command->name);
	EACH_VERB(verb, command)
	{
		g_autofree char *condition = g_strdup_printf(" -n '__vial_is %s %s'", command->name, *verb->name ? verb->name : "\"\"");
		g_autofree char *summary = fish_text(verb->summary);
		if (*verb->name)
			printf("complete -c vial%s -a %s -d '%s'\n", bare, verb->name, summary);
		print_fish_options(condition, verb->options);
		print_fish_arguments(condition, verb->completes);
		print_fish_arguments(condition, verb->completes_more);
	}
}

void vial_help_completion_fish(void)
{
	puts("# vial completion for fish: vial completion fish > ~/.config/fish/completions/vial.fish\n"
	     "# __vial_is COMMAND [VERB]: is that what has been typed so far? With \"\" for a verb: none yet.\n"
	     "function __vial_is\n"
	     "\tset -l words\n"
	     "\tfor word in (commandline -opc)[2..-1]\n"
	     "\t\tstring match -q -- '-*' $word; or set -a words $word\n"
	     "\tend\n"
	     "\ttest \"$words[1]\" = \"$argv[1]\"; or return 1\n"
	     "\ttest (count $argv) = 1; or test \"$words[2]\" = \"$argv[2]\"\n"
	     "end\n"
	     "complete -c vial -f");
	print_fish_options("", vial_global_options());
	EACH_COMMAND(command)
	{
		g_autofree char *summary = fish_text(command->summary);
		g_autofree char *condition = g_strdup_printf(" -n '__vial_is %s'", command->name);
		printf("complete -c vial -n __fish_use_subcommand -a %s -d '%s'\n", command->name, summary);
		print_fish_options(condition, command->syntax->options);
		print_fish_arguments(condition, command->syntax->completes);
		print_fish_verbs(command);
	}
}
