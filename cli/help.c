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

static void print_options(const VialOption *option)
{
	for (; option && option->name; option++) {
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
		if (!command->run)
			printf("\n%s%s%s\n", bold, command->summary, plain);
		else
			printf("  %-*s%s\n", COMMAND_COLUMN, command->name, command->summary);
	}
	printf("\n%sOptions for every command%s\n", bold, plain);
	print_options(vial_global_options());
	printf("\n`vial help COMMAND` tells more about one. Try: vial exec $(vial create) -- python3 -c 'print(6*7)'\n");
}

void vial_help_command(VialCli *cli, const VialCommand *command)
{
	const char *bold = vial_output_style(cli, "1"), *plain = vial_output_style(cli, "0");
	const VialSyntax *syntax = command->syntax;
	printf("%s\n\n%sUsage:%s vial %s%s%s\n", command->summary, bold, plain, command->name, *syntax->arguments ? " " : "", syntax->arguments);
	if (syntax->description)
		printf("\n%s\n", syntax->description);
	if (syntax->options) {
		printf("\n%sOptions%s\n", bold, plain);
		print_options(syntax->options);
	}
	printf("\n%sOptions for every command%s\n", bold, plain);
	print_options(vial_global_options());
}

int vial_help_unknown(VialCli *cli, const char *word)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	for (const VialCommand *command = vial_commands(); command->summary; command++)
		if (command->run)
			g_ptr_array_add(names, (gpointer)command->name);
	g_ptr_array_add(names, NULL);
	const char *nearest = vial_options_nearest(word, (const char *const *)names->pdata);
	g_autofree char *clean = vial_sanitize_line(word);
	if (nearest)
		return vial_output_usage(cli, "there is no command \"%s\"; did you mean \"%s\"?", clean, nearest);
	return vial_output_usage(cli, "there is no command \"%s\"", clean);
}
