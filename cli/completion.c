/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion scripts out of the command table. Values that only viald knows (@sandbox, @template, @snapshot) are asked for
 * while completing, through `vial … --quiet`, which prints bare names.
 */
#include <stdio.h>
#include <string.h>

#include "cli/help.h"

#define EACH_COMMAND(command)                                                           \
	for (const VialCommand *command = vial_commands(); command->summary; command++) \
		if (command->run)
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
	return NULL;
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
		printf("COMPREPLY=($(compgen -W '%s' -- \"$cur\"))", values);
	}
}

static void print_bash_values(const char *command_name, const VialOption *table)
{
	EACH_OPTION(option, table)
	{
		if (option->type == VIAL_OPTION_FLAG)
			continue;
		printf("\t%s:--%s", command_name, option->name);
		if (option->letter)
			printf("|%s:-%c", command_name, option->letter);
		fputs(") ", stdout);
		print_bash_reply(option->values ? option->values : "");
		puts("; return ;;");
	}
}

void vial_help_completion_bash(void)
{
	puts("# vial completion for bash: source <(vial completion bash)\n"
	     "_vial() {\n"
	     "\tlocal cur prev word cmd= i\n"
	     "\tcur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	     "\t\tword=${COMP_WORDS[i]}\n"
	     "\t\tcase $word in\n"
	     "\t\t--) return ;;\n"
	     "\t\t--url|--key|--cacert) ((i++)) ;;\n"
	     "\t\t-*) ;;\n"
	     "\t\t*) [[ $cmd ]] || cmd=$word ;;\n"
	     "\t\tesac\n"
	     "\tdone\n"
	     "\tcase $cmd:$prev in");
	EACH_COMMAND(command)
	print_bash_values(command->name, command->syntax->options);
	print_bash_values("*", vial_global_options());
	puts("\tesac\n"
	     "\tcase $cmd:$cur in");
	EACH_COMMAND(command)
	{
		printf("\t%s:-*) COMPREPLY=($(compgen -W '", command->name);
		print_option_words(command->syntax->options);
		print_option_words(vial_global_options());
		puts("' -- \"$cur\")) ;;");
		if (!command->syntax->completes)
			continue;
		printf("\t%s:*) ", command->name);
		print_bash_reply(command->syntax->completes);
		puts(" ;;");
	}
	fputs("\t:-*) COMPREPLY=($(compgen -W '", stdout);
	print_option_words(vial_global_options());
	fputs("' -- \"$cur\")) ;;\n\t:*) COMPREPLY=($(compgen -W '", stdout);
	print_names();
	puts("' -- \"$cur\")) ;;\n"
	     "\tesac\n"
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
		printf("(%s)", values);
}

static void print_zsh_options(const VialOption *table)
{
	EACH_OPTION(option, table)
	{
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
	print_zsh_options(vial_global_options());
	puts(" \\\n\t\t\t'1:command:_vial_commands' '*::argument:->argument'\n"
	     "\t[[ $state == argument ]] || return\n\tcase $line[1] in");
	EACH_COMMAND(command)
	{
		printf("\t%s)\n\t\t_arguments", command->name);
		print_zsh_options(command->syntax->options);
		print_zsh_options(vial_global_options());
		fputs(" \\\n\t\t\t'*:argument:", stdout);
		print_zsh_action(command->syntax->completes);
		puts("' ;;");
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
	if (!values || strcmp(values, "@command") == 0)
		return;
	if (command)
		printf(" -fa '(%s)'", command);
	else if (strcmp(values, "@directory") == 0)
		fputs(" -fa '(__fish_complete_directories)'", stdout);
	else if (strcmp(values, "@file") == 0)
		fputs(" -F", stdout);
	else
		printf(" -fa '%s'", values);
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

void vial_help_completion_fish(void)
{
	puts("# vial completion for fish: vial completion fish > ~/.config/fish/completions/vial.fish\n"
	     "complete -c vial -f");
	print_fish_options("", vial_global_options());
	EACH_COMMAND(command)
	{
		g_autofree char *summary = fish_text(command->summary);
		g_autofree char *condition = g_strdup_printf(" -n '__fish_seen_subcommand_from %s'", command->name);
		printf("complete -c vial -n __fish_use_subcommand -a %s -d '%s'\n", command->name, summary);
		print_fish_options(condition, command->syntax->options);
		if (command->syntax->completes && strcmp(command->syntax->completes, "@command") != 0) {
			printf("complete -c vial%s", condition);
			print_fish_values(command->syntax->completes);
			putchar('\n');
		}
	}
}
