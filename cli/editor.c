/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/editor.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <histedit.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/completeness.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"

enum { HISTORY_SIZE = 2000, CELL_MAX_BYTES = 1024 * 1024 };

/* Key sequences that no terminal sends: our functions push them to reach libedit's own commands. */
#define KEY_SEND "\033[vial1~"
#define KEY_PREVIOUS "\033[vial2~"
#define KEY_NEXT "\033[vial3~"

struct VialEditor {
	EditLine *edit; /* NULL without a terminal */
	History *history;
	const char *language; /* an interned string */
	char *history_file;
	char prompt[64];
	VialEditorComplete complete;
	gpointer complete_data;
};

/* --- libedit's callbacks --- */

static VialEditor *editor_of(EditLine *edit)
{
	VialEditor *editor = NULL;
	el_get(edit, EL_CLIENTDATA, &editor);
	return editor;
}

/*
 * The next character. libedit's own reader blocks in read(2), and a Ctrl-C that comes just before it would be seen only at
 * the next key.
 */
static int on_getc(EditLine *edit, wchar_t *out_character)
{
	mbstate_t state = { 0 };
	for (;;) {
		struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = vial_interrupt_fd(), .events = POLLIN } };
		if (!vial_interrupt_pending() && poll(fds, 2, -1) < 0 && errno != EINTR)
			return -1;
		if (vial_interrupt_pending()) {
			errno = EINTR;
			return -1;
		}
		char byte;
		ssize_t size = fds[0].revents ? read(STDIN_FILENO, &byte, 1) : -2;
		if (size == 0)
			return 0;
		if (size < 0) {
			if (size == -2 || errno == EINTR || errno == EAGAIN)
				continue;
			return -1;
		}
		size_t used = mbrtowc(out_character, &byte, 1, &state);
		if (used == (size_t)-2) /* more bytes of it are to come */
			continue;
		if (used == (size_t)-1) { /* no character of this locale: leave it out */
			memset(&state, 0, sizeof state);
			continue;
		}
		return 1;
	}
}

static char *on_prompt(EditLine *edit)
{
	return editor_of(edit)->prompt;
}

static unsigned char on_enter(EditLine *edit, int key)
{
	const LineInfo *line = el_line(edit);
	const char *language = editor_of(edit)->language;
	g_autofree char *all = g_strndup(line->buffer, line->lastchar - line->buffer);
	gboolean is_at_end = line->cursor == line->lastchar;
	/* In the middle of a cell Enter opens a line; so it does at the end of one that wants more. */
	gboolean is_last_line = !memchr(line->cursor, '\n', line->lastchar - line->cursor);
	if ((is_at_end || is_last_line) && vial_is_complete(language, all)) {
		el_push(edit, KEY_SEND);
		return CC_NORM;
	}
	g_autofree char *before = g_strndup(line->buffer, line->cursor - line->buffer);
	g_autofree char *indent = vial_next_indent(language, before);
	g_autofree char *text = g_strconcat("\n", indent, NULL);
	el_insertstr(edit, text);
	return CC_REFRESH;
}

/* Alt-Enter: a new line in any case. */
static unsigned char on_newline(EditLine *edit, int key)
{
	el_insertstr(edit, "\n");
	return CC_REFRESH;
}

/* Up: within the cell first, then through the history. Columns are counted in characters. */
static unsigned char on_up(EditLine *edit, int key)
{
	const LineInfo *line = el_line(edit);
	const char *start = line->cursor;
	while (start > line->buffer && start[-1] != '\n')
		start--;
	if (start == line->buffer) {
		el_push(edit, KEY_PREVIOUS);
		return CC_NORM;
	}
	glong column = g_utf8_strlen(start, line->cursor - start);
	const char *above = start - 1;
	while (above > line->buffer && above[-1] != '\n')
		above--;
	glong length = g_utf8_strlen(above, start - 1 - above);
	el_cursor(edit, (int)-(column + 1 + length - MIN(column, length)));
	return CC_CURSOR;
}

static unsigned char on_down(EditLine *edit, int key)
{
	const LineInfo *line = el_line(edit);
	const char *start = line->cursor, *end = line->cursor, *limit = line->lastchar;
	while (start > line->buffer && start[-1] != '\n')
		start--;
	while (end < limit && *end != '\n')
		end++;
	if (end == limit) {
		el_push(edit, KEY_NEXT);
		return CC_NORM;
	}
	glong column = g_utf8_strlen(start, line->cursor - start);
	const char *below = end + 1, *below_end = below;
	while (below_end < limit && *below_end != '\n')
		below_end++;
	glong length = g_utf8_strlen(below, below_end - below);
	el_cursor(edit, (int)(g_utf8_strlen(line->cursor, end - line->cursor) + 1 + MIN(column, length)));
	return CC_CURSOR;
}

/* To the start or end of the line in a cell, where libedit's own commands would go to those of the whole cell. */
static unsigned char on_home(EditLine *edit, int key)
{
	const LineInfo *line = el_line(edit);
	const char *start = line->cursor;
	while (start > line->buffer && start[-1] != '\n')
		start--;
	el_cursor(edit, (int)-g_utf8_strlen(start, line->cursor - start));
	return CC_CURSOR;
}

static unsigned char on_end(EditLine *edit, int key)
{
	const LineInfo *line = el_line(edit);
	const char *end = line->cursor;
	while (end < line->lastchar && *end != '\n')
		end++;
	el_cursor(edit, (int)g_utf8_strlen(line->cursor, end - line->cursor));
	return CC_CURSOR;
}

/* The words below the line, as many as help; the line itself is drawn again after them. */
static void list_words(char **words)
{
	enum { SHOWN = 60, WIDTH = 76 };
	int column = 0, shown = 0;
	for (; *words && shown < SHOWN; words++, shown++) {
		int width = (int)g_utf8_strlen(*words, -1) + 2;
		if (column == 0 || column + width > WIDTH) {
			fputs("\n", stdout);
			column = 0;
		}
		printf("%s  ", *words);
		column += width;
	}
	fputs(*words ? "\n...\n" : "\n", stdout);
	fflush(stdout);
}

static gsize common_length(char **words)
{
	gsize length = strlen(words[0]);
	for (char **other = words + 1; *other; other++)
		while (strncmp(words[0], *other, length) != 0)
			length--;
	/* Not within a character. */
	while (length > 0 && ((guchar)words[0][length] & 0xc0) == 0x80)
		length--;
	return length;
}

/* Where a line begins Tab indents; behind a word it completes that, or shows what it might become. */
static unsigned char on_tab(EditLine *edit, int key)
{
	VialEditor *editor = editor_of(edit);
	const LineInfo *line = el_line(edit);
	const char *start = line->cursor;
	while (start > line->buffer && (start[-1] == ' ' || start[-1] == '\t'))
		start--;
	if (start == line->buffer || start[-1] == '\n' || !editor->complete) {
		el_insertstr(edit, "    ");
		return CC_REFRESH;
	}
	g_autofree char *before = g_strndup(line->buffer, line->cursor - line->buffer);
	g_auto(GStrv) words = editor->complete(before, editor->complete_data);
	if (!words || !words[0] || !words[1])
		return CC_NORM;
	gsize typed = strlen(words[0]), common = common_length(words + 1);
	if (common > typed && strncmp(words[0], words[1], typed) == 0) {
		g_autofree char *rest = g_strndup(words[1] + typed, common - typed);
		el_insertstr(edit, rest);
		return CC_REFRESH;
	}
	if (!words[2])
		return CC_NORM;
	list_words(words + 1);
	return CC_REDISPLAY;
}

static void bind_keys(EditLine *edit)
{
	/* The wide form: the narrow one copies its strings and never frees them. */
	el_wset(edit, EL_ADDFN, L"vial-enter", L"send the cell, or go on with it", on_enter);
	el_wset(edit, EL_ADDFN, L"vial-newline", L"a new line", on_newline);
	el_wset(edit, EL_ADDFN, L"vial-up", L"a line up, or back in history", on_up);
	el_wset(edit, EL_ADDFN, L"vial-down", L"a line down, or forth in history", on_down);
	el_wset(edit, EL_ADDFN, L"vial-home", L"to the start of the line", on_home);
	el_wset(edit, EL_ADDFN, L"vial-end", L"to the end of the line", on_end);
	el_wset(edit, EL_ADDFN, L"vial-tab", L"indent or complete", on_tab);
	static const char *const keys[][2] = {
		{ "\r", "vial-enter" },
		{ "\n", "vial-enter" },
		{ "\033\r", "vial-newline" },
		{ "\033\n", "vial-newline" },
		{ "\033[A", "vial-up" },
		{ "\033OA", "vial-up" },
		{ "\033[B", "vial-down" },
		{ "\033OB", "vial-down" },
		{ "\t", "vial-tab" },
		{ "\022", "em-inc-search-prev" },
		{ "\001", "vial-home" },
		{ "\033[H", "vial-home" },
		{ "\033OH", "vial-home" },
		{ "\033[1~", "vial-home" },
		{ "\005", "vial-end" },
		{ "\033[F", "vial-end" },
		{ "\033OF", "vial-end" },
		{ "\033[4~", "vial-end" },
		{ "\033[3~", "ed-delete-next-char" },
		{ "\033[1;5C", "em-next-word" },
		{ "\033[1;5D", "ed-prev-word" },
		{ KEY_SEND, "ed-newline" },
		{ KEY_PREVIOUS, "ed-prev-history" },
		{ KEY_NEXT, "ed-next-history" },
	};
	for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
		el_set(edit, EL_BIND, keys[i][0], keys[i][1], NULL);
}

/* --- history --- */

static void save_history(VialEditor *editor)
{
	if (!editor->history || !editor->history_file)
		return;
	HistEvent event;
	g_autofree char *directory = g_path_get_dirname(editor->history_file);
	g_mkdir_with_parents(directory, 0700);
	history(editor->history, &event, H_SAVE, editor->history_file);
	g_chmod(editor->history_file, 0600); /* what one types into a REPL may be a secret */
}

static void load_history(VialEditor *editor)
{
	HistEvent event;
	g_free(editor->history_file);
	editor->history_file = g_strdup_printf("%s/vial/history-%s", g_get_user_state_dir(), editor->language);
	if (!editor->history)
		return;
	history(editor->history, &event, H_CLEAR);
	history(editor->history, &event, H_LOAD, editor->history_file);
}

/* --- public --- */

VialEditor *vial_editor_new(const char *language)
{
	VialEditor *editor = g_new0(VialEditor, 1);
	editor->language = g_intern_string(language);
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
		HistEvent event;
		vial_terminal_guard();
		editor->history = history_init();
		history(editor->history, &event, H_SETSIZE, HISTORY_SIZE);
		history(editor->history, &event, H_SETUNIQUE, 1);
		editor->edit = el_init("vial", stdin, stdout, stderr);
		el_set(editor->edit, EL_CLIENTDATA, editor);
		el_set(editor->edit, EL_PROMPT, on_prompt);
		el_set(editor->edit, EL_GETCFN, on_getc);
		el_set(editor->edit, EL_EDITOR, "emacs");
		el_set(editor->edit, EL_HIST, history, editor->history);
		el_source(editor->edit, NULL); /* the user's ~/.editrc, below our own keys */
		bind_keys(editor->edit);
	}
	load_history(editor);
	return editor;
}

void vial_editor_set_completer(VialEditor *editor, VialEditorComplete complete, gpointer data)
{
	editor->complete = complete;
	editor->complete_data = data;
}

void vial_editor_free(VialEditor *editor)
{
	if (!editor)
		return;
	save_history(editor);
	if (editor->edit)
		el_end(editor->edit);
	if (editor->history)
		history_end(editor->history);
	g_free(editor->history_file);
	g_free(editor);
}

void vial_editor_set_language(VialEditor *editor, const char *language)
{
	save_history(editor);
	editor->language = g_intern_string(language);
	load_history(editor);
}

static VialEditorOutcome read_edited(VialEditor *editor, char **out_cell)
{
	int size = 0;
	/*
	 * The mode for editing before the prompt appears, and again while the cell runs: libedit itself would change it only after
	 * the prompt is out, and what is typed ahead would be echoed and its Ctrl-D lost.
	 */
	el_set(editor->edit, EL_PREP_TERM, 1);
	const char *text = el_gets(editor->edit, &size);
	el_set(editor->edit, EL_PREP_TERM, 1);
	if (vial_interrupt_pending()) {
		gboolean is_final = vial_interrupt_is_final();
		vial_interrupt_take();
		fputs("\n", stdout);
		el_reset(editor->edit);
		return is_final ? VIAL_EDITOR_END : VIAL_EDITOR_CANCELLED;
	}
	if (!text || size <= 0) {
		fputs("\n", stdout);
		return VIAL_EDITOR_END;
	}
	g_autofree char *cell = g_strndup(text, (gsize)size);
	g_strchomp(cell);
	if (*cell) {
		HistEvent event;
		history(editor->history, &event, H_ENTER, cell);
	}
	*out_cell = g_steal_pointer(&cell);
	return VIAL_EDITOR_CELL;
}

/* Without a terminal: lines are gathered until they are complete. */
static VialEditorOutcome read_plain(VialEditor *editor, char **out_cell)
{
	g_autoptr(GString) cell = g_string_new(NULL);
	char *line = NULL;
	size_t room = 0;
	ssize_t size;
	while (cell->len < CELL_MAX_BYTES && (size = getline(&line, &room, stdin)) >= 0) {
		if (size > 0 && line[size - 1] == '\n')
			line[--size] = '\0';
		if (cell->len)
			g_string_append_c(cell, '\n');
		g_string_append_len(cell, line, size);
		if (vial_is_complete(editor->language, cell->str))
			break;
	}
	free(line);
	if (vial_interrupt_pending() || (cell->len == 0 && feof(stdin)))
		return VIAL_EDITOR_END;
	*out_cell = g_string_free(g_steal_pointer(&cell), FALSE);
	g_strchomp(*out_cell);
	return VIAL_EDITOR_CELL;
}

VialEditorOutcome vial_editor_read(VialEditor *editor, int number, char **out_cell)
{
	static const char *const signs[][2] = { { "python", "py" }, { "javascript", "js" }, { "bash", "sh" } };
	const char *sign = "";
	for (gsize i = 0; i < G_N_ELEMENTS(signs); i++)
		if (strcmp(editor->language, signs[i][0]) == 0)
			sign = signs[i][1];
	g_snprintf(editor->prompt, sizeof editor->prompt, "%s[%d]> ", sign, number);
	return editor->edit ? read_edited(editor, out_cell) : read_plain(editor, out_cell);
}
