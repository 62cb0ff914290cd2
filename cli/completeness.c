/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completeness.h"

#include <string.h>

/* --- Python: brackets, strings, backslash; a block ends with an empty line, as in its own prompt --- */

typedef struct {
	int depth;          /* open brackets */
	gboolean in_string; /* an unfinished triple-quoted one, or a plain one continued by a backslash */
	gboolean ends_with_backslash;
	gboolean ends_with_colon; /* the last line that has code */
	gboolean has_block;       /* some line opened one, or is a decorator */
	gboolean ends_blank;      /* the last line is empty */
} PythonState;

static const char *skip_python_string(const char *at, PythonState *state)
{
	char quote = *at;
	gboolean is_triple = at[1] == quote && at[2] == quote;
	at += is_triple ? 3 : 1;
	for (; *at; at++) {
		if (*at == '\\' && at[1])
			at++;
		else if (!is_triple && *at == '\n')
			return at; /* the kernel will complain; nothing to wait for */
		else if (*at == quote && (!is_triple || (at[1] == quote && at[2] == quote)))
			return at + (is_triple ? 3 : 1);
	}
	state->in_string = is_triple || at[-1] == '\\';
	return at;
}

static PythonState scan_python(const char *code)
{
	PythonState state = { 0 };
	char last = 0; /* the last character of code on this line, 0 for none */
	const char *line = code;
	for (const char *at = code; *at && !state.in_string;) {
		if (*at == '"' || *at == '\'') {
			last = '"';
			at = skip_python_string(at, &state);
			continue;
		}
		if (*at == '#') {
			at += strcspn(at, "\n");
			continue;
		}
		if (strchr("([{", *at))
			state.depth++;
		else if (strchr(")]}", *at))
			state.depth--;
		if (*at == '@' && last == 0 && at == line + strspn(line, " \t"))
			state.has_block = TRUE; /* a decorator wants its function */
		if (*at == '\n') {
			if (last)
				state.ends_with_colon = last == ':' && state.depth <= 0;
			state.has_block |= state.ends_with_colon;
			state.ends_with_backslash = FALSE;
			last = 0;
			line = at + 1;
		} else if (*at == '\\' && (at[1] == '\n' || at[1] == '\0')) {
			state.ends_with_backslash = at[1] == '\0';
			if (at[1])
				at++;
		} else if (!g_ascii_isspace(*at)) {
			last = *at;
		}
		at++;
	}
	if (last)
		state.ends_with_colon = last == ':' && state.depth <= 0;
	state.has_block |= state.ends_with_colon;
	state.ends_blank = line[strspn(line, " \t")] == '\0' && line != code;
	return state;
}

static gboolean is_complete_python(const char *code)
{
	/* Cell magics take the whole cell: an empty line ends them too. */
	gboolean is_magic = g_str_has_prefix(code, "%%");
	PythonState state = scan_python(code);
	if (is_magic)
		return state.ends_blank;
	if (state.depth > 0 || state.in_string || state.ends_with_backslash)
		return FALSE;
	return !state.has_block || state.ends_blank;
}

/* --- JavaScript: brackets, strings, templates, comments, a dangling operator --- */

static gboolean is_complete_javascript(const char *code)
{
	enum { STACK_MAX = 256 };
	char stack[STACK_MAX]; /* '{' '(' '[', and '`' for a template whose ${ is open */
	int depth = 0;
	char last = 0;
	gboolean in_template = FALSE;
	for (const char *at = code; *at; at++) {
		if (in_template) {
			if (*at == '\\' && at[1])
				at++;
			else if (*at == '`')
				in_template = FALSE, last = '`';
			else if (*at == '$' && at[1] == '{' && depth < STACK_MAX)
				stack[depth++] = '`', in_template = FALSE, at++;
			continue;
		}
		if (at[0] == '/' && at[1] == '/') {
			at += strcspn(at, "\n");
			if (!*at)
				break;
		} else if (at[0] == '/' && at[1] == '*') {
			const char *end = strstr(at + 2, "*/");
			if (!end)
				return FALSE;
			at = end + 1;
			continue;
		}
		if (*at == '"' || *at == '\'') {
			char quote = *at;
			for (at++; *at && *at != quote && *at != '\n'; at++)
				if (*at == '\\' && at[1])
					at++;
			if (!*at)
				break;
			last = quote;
		} else if (*at == '`') {
			in_template = TRUE;
		} else if (strchr("([{", *at)) {
			if (depth < STACK_MAX)
				stack[depth++] = *at;
			last = *at;
		} else if (strchr(")]}", *at)) {
			if (depth > 0 && stack[--depth] == '`' && *at == '}')
				in_template = TRUE;
			last = *at;
		} else if (!g_ascii_isspace(*at)) {
			last = *at;
		}
	}
	return depth <= 0 && !in_template && !(last && strchr("=,&|?+*.", last) && !g_str_has_suffix(code, "++"));
}

/* --- bash: quotes, backslash, here-documents, keywords --- */

typedef struct {
	int depth;           /* open compound commands */
	int parens;          /* counted apart: the ")" of a case pattern closes none */
	GPtrArray *heredocs; /* delimiters whose bodies are to come */
	gboolean is_command_position;
	gboolean ends_open; /* the last token wants more: | && || */
} BashState;

static void take_bash_word(BashState *state, const char *word)
{
	static const char *const openers[] = { "if", "while", "until", "for", "case", "select", "{", NULL };
	static const char *const closers[] = { "fi", "done", "esac", "}", NULL };
	static const char *const middles[] = { "then", "do", "else", "elif", "!", "in", NULL };
	if (state->is_command_position && g_strv_contains(openers, word))
		state->depth++;
	else if (state->is_command_position && g_strv_contains(closers, word))
		state->depth--;
	state->is_command_position = g_strv_contains(middles, word) || g_strv_contains(openers, word);
}

/* Skips the body of a here-document; NULL when its end is not there yet. */
static const char *skip_heredoc(const char *at, const char *delimiter)
{
	while (*at) {
		gsize size = strcspn(at, "\n");
		g_autofree char *line = g_strndup(at, size);
		const char *end = at + size;
		if (strcmp(line + strspn(line, "\t"), delimiter) == 0)
			return end;
		if (!*end)
			return NULL;
		at = end + 1;
	}
	return NULL;
}

static const char *take_heredoc(BashState *state, const char *at)
{
	at += strspn(at, "- \t");
	gsize size = strcspn(at, " \t\n;|&<>()");
	char *delimiter = g_strndup(at, size);
	for (char *from = delimiter, *to = delimiter;; from++) { /* quotes only say that the body is literal */
		if (*from != '\'' && *from != '"' && *from != '\\')
			*to++ = *from;
		if (!*from)
			break;
	}
	g_ptr_array_add(state->heredocs, delimiter);
	return at + size;
}

static gboolean is_complete_bash(const char *code)
{
	g_autoptr(GPtrArray) heredocs = g_ptr_array_new_with_free_func(g_free);
	BashState state = { .heredocs = heredocs, .is_command_position = TRUE };
	g_autoptr(GString) word = g_string_new(NULL);
	for (const char *at = code; *at;) {
		if (*at == '\\') {
			if (at[1] == '\0' || (at[1] == '\n' && at[2] == '\0'))
				return FALSE;
			g_string_append_c(word, 'x');
			at += 2;
			continue;
		}
		if (*at == '\'' || *at == '"') {
			char quote = *at;
			for (at++; *at && *at != quote; at++)
				if (quote == '"' && *at == '\\' && at[1])
					at++;
			if (!*at)
				return FALSE;
			g_string_append_c(word, 'x');
			at++;
			continue;
		}
		if (*at == '#' && word->len == 0) {
			at += strcspn(at, "\n");
			continue;
		}
		if (*at == '$' && at[1] == '{') {
			at += strcspn(at, "}");
			g_string_append_c(word, 'x');
			continue;
		}
		if (!strchr(" \t\n;|&()<>", *at)) {
			g_string_append_c(word, *at++);
			continue;
		}
		if (word->len) {
			take_bash_word(&state, word->str);
			state.ends_open = FALSE;
			g_string_truncate(word, 0);
		}
		if (at[0] == '<' && at[1] == '<' && at[2] != '<') {
			at = take_heredoc(&state, at + 2);
			continue;
		}
		if (g_str_has_prefix(at, "<<<")) {
			at += 3;
			continue;
		}
		if (*at == '(')
			state.parens++;
		if (*at == ')' && state.parens > 0)
			state.parens--;
		if (*at == '|' || (at[0] == '&' && at[1] == '&'))
			state.ends_open = TRUE;
		if (strchr("\n;|&()", *at))
			state.is_command_position = TRUE;
		if (*at == '\n' && heredocs->len) {
			for (; at && heredocs->len; g_ptr_array_remove_index(heredocs, 0))
				if ((at = skip_heredoc(at + 1, g_ptr_array_index(heredocs, 0))) == NULL)
					return FALSE;
			continue;
		}
		at += at[0] == '&' && at[1] == '&' ? 2 : 1;
	}
	if (word->len) {
		take_bash_word(&state, word->str);
		state.ends_open = FALSE;
	}
	return state.depth <= 0 && state.parens == 0 && heredocs->len == 0 && !state.ends_open;
}

gboolean vial_is_complete(const char *language, const char *code)
{
	if (code[strspn(code, " \t\n")] == '\0')
		return TRUE;
	if (strcmp(language, "python") == 0)
		return is_complete_python(code);
	if (strcmp(language, "bash") == 0)
		return is_complete_bash(code);
	return is_complete_javascript(code);
}

char *vial_next_indent(const char *language, const char *code)
{
	const char *newline = strrchr(code, '\n');
	const char *line = newline ? newline + 1 : code;
	gsize blanks = strspn(line, " \t");
	g_autofree char *same = g_strndup(line, blanks);
	if (strcmp(language, "python") != 0)
		return g_steal_pointer(&same);
	PythonState state = scan_python(code);
	if (state.in_string)
		return g_strdup("");
	const char *extra = state.ends_with_colon && line[blanks] ? "    " : "";
	return g_strconcat(same, extra, NULL);
}
