/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/output.h"

enum { OPTION_COLUMN = 26, COMMAND_COLUMN = 12 };

static char *option_form(const VialOption *option)
{
	g_autofree char *letter = option->letter ? g_strdup_printf("-%c, ", option->letter) : g_strdup("    ");
	return g_strdup_printf("%s--%s%s%s", letter, option->name, option->value_name ? " " : "", option->value_name ? option->value_name : "");
}

/* Those of a table, but for what `own` has itself under that name. */
static void print_options(const VialOption *option, const VialOption *own)
{
	for (; option && option->name; option++) {
		if (vial_options_have(own, option->name))
			continue;
		g_autofree char *form = option_form(option);
		if (strlen(form) > OPTION_COLUMN)
			printf("  %s\n  %*s  %s\n", form, OPTION_COLUMN, "", option->help);
		else
			printf("  %-*s  %s\n", OPTION_COLUMN, form, option->help);
	}
}

void vial_help_overview(VialCli *cli)
{
	const char *bold = vial_output_style(cli, "1"), *plain = vial_output_style(cli, "0");
	printf("vial runs code in sealed sandboxes: its own kernel, live state, nothing of yours in reach.\n\n"
	       "%sUsage:%s vial [OPTION...] COMMAND [ARGUMENT...]\n",
	       bold, plain);
	for (const VialCommand *command = vial_commands(); command->summary; command++) {
		if (!command->syntax)
			printf("\n%s%s%s\n", bold, command->summary, plain);
		else
			printf("  %-*s%s\n", COMMAND_COLUMN, command->name, command->summary);
	}
	printf("\n%sOptions for every command%s\n", bold, plain);
	print_options(vial_global_options(), NULL);
	printf("\n`vial help COMMAND` tells more about one. Try: vial exec $(vial create) -- python3 -c 'print(6*7)'\n");
}

/* "vial key rotate NAME [OPTION...]"; a verb with "" is the command alone. */
static char *verb_form(const VialCommand *command, const VialVerb *verb)
{
	g_autofree char *form = g_strjoin(" ", "vial", command->name, verb->name, verb->arguments, NULL);
	g_auto(GStrv) words = g_strsplit(form, " ", -1);
	GString *clean = g_string_new(NULL);
	for (int i = 0; words[i]; i++)
		if (*words[i])
			g_string_append_printf(clean, "%s%s", clean->len ? " " : "", words[i]);
	return g_string_free(clean, FALSE);
}

static void print_verbs(const VialCommand *command)
{
	for (const VialVerb *verb = command->syntax->verbs; verb->name; verb++) {
		g_autofree char *form = verb_form(command, verb);
		printf("  %s\n      %s\n", form, verb->summary);
	}
}

static void print_usage(VialCli *cli, const VialCommand *command, const VialVerb *verb)
{
	const char *bold = vial_output_style(cli, "1"), *plain = vial_output_style(cli, "0");
	const VialSyntax *syntax = command->syntax;
	if (verb) {
		g_autofree char *form = verb_form(command, verb);
		printf("%s\n\n%sUsage:%s %s\n", verb->summary, bold, plain, form);
		return;
	}
	printf("%s\n\n%sUsage:%s vial %s%s%s\n", command->summary, bold, plain, command->name, *syntax->arguments ? " " : "", syntax->arguments);
	if (syntax->verbs)
		putchar('\n'), print_verbs(command);
}

void vial_help_command(VialCli *cli, const VialCommand *command, const VialVerb *verb)
{
	const char *bold = vial_output_style(cli, "1"), *plain = vial_output_style(cli, "0");
	const VialSyntax *syntax = command->syntax;
	/* What a command does without a verb is explained with the command. */
	gboolean is_whole = !verb || !*verb->name;
	const VialVerb *bare = syntax->verbs ? vial_verb_find(command, "") : NULL;
	const VialOption *own = !is_whole ? verb->options : bare ? bare->options : syntax->options;
	print_usage(cli, command, is_whole ? NULL : verb);
	if (syntax->description && is_whole)
		printf("\n%s\n", syntax->description);
	if (own) {
		printf("\n%sOptions%s\n", bold, plain);
		print_options(own, NULL);
	}
	printf("\n%sOptions for every command%s\n", bold, plain);
	print_options(vial_global_options(), own);
	if (syntax->verbs && is_whole)
		printf("\n`vial help %s VERB` tells the options of one.\n", command->name);
}

int vial_help_unknown(VialCli *cli, const char *word)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	for (const VialCommand *command = vial_commands(); command->summary; command++)
		if (command->syntax)
			g_ptr_array_add(names, (gpointer)command->name);
	g_ptr_array_add(names, NULL);
	const char *nearest = vial_options_nearest(word, (const char *const *)names->pdata);
	g_autofree char *clean = vial_sanitize_line(word);
	if (nearest)
		return vial_output_usage(cli, "there is no command \"%s\"; did you mean \"%s\"?", clean, nearest);
	return vial_output_usage(cli, "there is no command \"%s\"", clean);
}
