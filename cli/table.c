/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/sanitize.h"
#include "cli/terminal.h"

typedef struct {
	char *text;
	const char *sgr; /* borrowed, a literal */
} Cell;

struct VialTable {
	char **headers;
	guint columns;
	GArray *cells;
};

static void cell_clear(gpointer data)
{
	g_free(((Cell *)data)->text);
}

VialTable *vial_table_new(const char *headers)
{
	VialTable *table = g_new0(VialTable, 1);
	table->headers = g_strsplit(headers, " ", -1);
	table->columns = g_strv_length(table->headers);
	table->cells = g_array_new(FALSE, TRUE, sizeof(Cell));
	g_array_set_clear_func(table->cells, cell_clear);
	return table;
}

void vial_table_free(VialTable *table)
{
	if (!table)
		return;
	g_strfreev(table->headers);
	g_array_unref(table->cells);
	g_free(table);
}

void vial_table_add(VialTable *table, const char *text)
{
	Cell cell = { .text = text && *text ? vial_sanitize_line(text) : g_strdup("-") };
	g_array_append_val(table->cells, cell);
}

void vial_table_add_take(VialTable *table, char *text)
{
	vial_table_add(table, text);
	g_free(text);
}

void vial_table_style(VialTable *table, const char *sgr)
{
	if (table->cells->len)
		g_array_index(table->cells, Cell, table->cells->len - 1).sgr = sgr;
}

static int char_width(gunichar c)
{
	if (g_unichar_iszerowidth(c))
		return 0;
	return g_unichar_iswide(c) ? 2 : 1;
}

int vial_text_width(const char *text)
{
	int width = 0;
	for (; *text; text = g_utf8_next_char(text))
		width += char_width(g_utf8_get_char(text));
	return width;
}

static gboolean is_right(const VialTable *table, guint column)
{
	return table->headers[column][0] == '>';
}

static const char *header(const VialTable *table, guint column)
{
	return table->headers[column] + (is_right(table, column) ? 1 : 0);
}

/* Appends `text` cut to `room` cells, the last being "…" when something was lost. Returns the cells used. */
static int append_cut(GString *out, const char *text, int room)
{
	int width = vial_text_width(text), used = 0;
	if (width <= room) {
		g_string_append(out, text);
		return width;
	}
	for (; *text; text = g_utf8_next_char(text)) {
		int cells = char_width(g_utf8_get_char(text));
		if (used + cells > room - 1)
			break;
		g_string_append_len(out, text, g_utf8_next_char(text) - text);
		used += cells;
	}
	if (room > 0)
		g_string_append(out, "…"), used++;
	return used;
}

char *vial_text_cut(const char *text, int room)
{
	GString *out = g_string_new(NULL);
	append_cut(out, text, MAX(room, 0));
	return g_string_free(out, FALSE);
}

static void append_row(const VialTable *table, const int *widths, guint first_cell, gboolean is_header, int limit, gboolean has_color, GString *out)
{
	int column_start = 0;
	for (guint i = 0; i < table->columns; i++) {
		const Cell *cell = is_header ? NULL : &g_array_index(table->cells, Cell, first_cell + i);
		const char *text = cell ? cell->text : header(table, i);
		const char *sgr = is_header ? "2" : cell->sgr;
		int room = limit > 0 ? limit - column_start : G_MAXINT;
		if (room <= 0)
			break;
		int pad = widths[i] - vial_text_width(text);
		if (is_right(table, i) && pad < room)
			g_string_append_printf(out, "%*s", pad, ""), room -= pad;
		if (has_color && sgr)
			g_string_append_printf(out, "\033[%sm", sgr);
		append_cut(out, text, room);
		if (has_color && sgr)
			g_string_append(out, "\033[0m");
		if (i + 1 < table->columns)
			g_string_append_printf(out, "%*s", (is_right(table, i) ? 0 : pad) + 2, "");
		column_start += widths[i] + 2;
	}
	while (out->len && out->str[out->len - 1] == ' ')
		g_string_truncate(out, out->len - 1);
	g_string_append_c(out, '\n');
}

char *vial_table_render(const VialTable *table, int width, gboolean has_color)
{
	g_autofree int *widths = g_new0(int, table->columns);
	for (guint i = 0; i < table->columns; i++)
		widths[i] = vial_text_width(header(table, i));
	for (guint i = 0; i < table->cells->len; i++) {
		int *column = &widths[i % table->columns];
		*column = MAX(*column, vial_text_width(g_array_index(table->cells, Cell, i).text));
	}
	GString *out = g_string_new(NULL);
	append_row(table, widths, 0, TRUE, width, has_color, out);
	for (guint i = 0; i + table->columns <= table->cells->len; i += table->columns)
		append_row(table, widths, i, FALSE, width, has_color, out);
	return g_string_free(out, FALSE);
}

void vial_table_print(const VialTable *table, gboolean has_color)
{
	int rows = 0, columns = 0;
	if (!isatty(STDOUT_FILENO) || !vial_terminal_size(&rows, &columns))
		columns = 0;
	g_autofree char *text = vial_table_render(table, columns, has_color);
	fputs(text, stdout);
}
