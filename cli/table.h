/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned columns. Widths count terminal cells, not bytes; cells are cleaned, since much of what is shown came from others. */
#pragma once

#include <glib.h>

typedef struct VialTable VialTable;

/* `headers`: names separated by blanks; one that begins with '>' is aligned to the right. */
VialTable *vial_table_new(const char *headers);
void vial_table_free(VialTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialTable, vial_table_free)

void vial_table_add(VialTable *table, const char *cell); /* NULL or "": "-"; a row is full after as many as headers */
void vial_table_add_take(VialTable *table, char *cell);
/* Colours the cell just added. */
void vial_table_style(VialTable *table, const char *sgr);
/* The whole table, lines cut at `width` cells (0: never), coloured if asked. */
char *vial_table_render(const VialTable *table, int width, gboolean has_color);
/* On stdout, cut at the terminal's width if stdout is one. */
void vial_table_print(const VialTable *table, gboolean has_color);

int vial_text_width(const char *text);           /* in terminal cells */
char *vial_text_cut(const char *text, int room); /* to so many cells, the last being "…" when something was lost; to be freed */
