/* SPDX-License-Identifier: Apache-2.0 */
/* vial(1) in man(7) form. docs/vial.1 is this output; tests/cli compares the two. */
#include <stdio.h>
#include <string.h>

#include "cli/help.h"

/* roff gives meaning to a backslash anywhere, and to '.' and '\'' at the start of a line; "-" is a hyphen unless escaped. */
static void print_escaped(const char *text)
{
	gboolean is_line_start = TRUE;
	for (; *text; text++) {
		if (is_line_start && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
		is_line_start = *text == '\n';
	}
}

static void print_options(const VialOption *option)
{
	for (; option && option->name; option++) {
		printf(".TP\n");
		if (option->letter)
			printf("\\fB\\-%c\\fR, ", option->letter);
		fputs("\\fB\\-\\-", stdout);
		print_escaped(option->name);
		fputs("\\fR", stdout);
		if (option->value_name)
			printf(" \\fI%s\\fR", option->value_name);
		putchar('\n');
		print_escaped(option->help);
		putchar('\n');
	}
}

/* Paragraphs; lines that begin with two blanks are shown as they are. */
static void print_description(const char *text)
{
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	gboolean is_example = FALSE;
	for (int i = 0; lines[i]; i++) {
		gboolean wants_example = g_str_has_prefix(lines[i], "  ");
		if (wants_example != is_example)
			puts(wants_example ? ".nf" : ".fi");
		is_example = wants_example;
		if (*lines[i])
			print_escaped(lines[i]), putchar('\n');
		else
			puts(".PP");
	}
	if (is_example)
		puts(".fi");
}

static void print_verb(const VialCommand *command, const VialVerb *verb)
{
	printf(".PP\n\\fBvial %s%s%s\\fR", command->name, *verb->name ? " " : "", verb->name);
	if (*verb->arguments)
		putchar(' '), print_escaped(verb->arguments);
	puts("\n.RS");
	print_escaped(verb->summary);
	puts(".");
	print_options(verb->options);
	puts(".RE");
}

static void print_command(const VialCommand *command)
{
	printf(".SS \"vial %s", command->name);
	if (*command->syntax->arguments)
		putchar(' '), print_escaped(command->syntax->arguments);
	puts("\"");
	print_escaped(command->summary);
	puts(".");
	if (command->syntax->description) {
		puts(".PP");
		print_description(command->syntax->description);
	}
	print_options(command->syntax->options);
	for (const VialVerb *verb = command->syntax->verbs; verb && verb->name; verb++)
		print_verb(command, verb);
}

void vial_help_manpage(void)
{
	puts(".\\\" Made by `vial help --man`; do not edit.\n"
	     ".TH VIAL 1 \"\" \"vial " VIAL_VERSION "\" \"User Commands\"\n"
	     ".SH NAME\nvial \\- run code in sealed sandboxes\n"
	     ".SH SYNOPSIS\n.B vial\n[\\fIOPTION\\fR...] \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n"
	     ".SH DESCRIPTION\n"
	     "Talks to viald, which makes and keeps the sandboxes. A sandbox is named by its id or by a beginning of it that no\n"
	     "other has.\n.SH OPTIONS");
	print_options(vial_global_options());
	puts(".SH COMMANDS");
	for (const VialCommand *command = vial_commands(); command->summary; command++)
		if (command->syntax)
			print_command(command);
	puts(".SH EXIT STATUS\n"
	     ".TP\n0\nit worked\n.TP\n1\nit did not; one sentence on standard error says why\n.TP\n2\nwrong usage\n"
	     ".TP\n124\nthe remote command ran into its time limit\n"
	     ".TP\n125\nexec, sh, run, repl: vial itself failed\n"
	     ".TP\n126, 127\nexec: the remote command cannot be run, or was not found\n"
	     ".TP\n130\ninterrupted\n.PP\n"
	     "exec, sh and run otherwise end with the status of what they ran.\n"
	     ".SH ENVIRONMENT\n"
	     ".TP\n\\fBVIAL_URL\\fR\nwhere viald is; http://127.0.0.1:7070 when unset\n"
	     ".TP\n\\fBVIAL_API_KEY\\fR\nthe key; when unset, keys/admin.key in \\fBVIAL_DATA\\fR or /var/lib/vial is used if readable\n"
	     ".TP\n\\fBVIAL_CACERT\\fR\na file with the certificates to trust for https\n"
	     ".TP\n\\fBNO_COLOR\\fR\nno colours\n"
	     ".SH FILES\n.TP\n~/.local/state/vial/history\\-*\nwhat was typed into \\fBvial repl\\fR");
}
