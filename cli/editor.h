/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typing of several lines, with history, over libedit. Enter sends what is complete and else begins a new line; the whole cell
 * can be edited until it is sent, and comes back whole from the history. Without a terminal, lines are simply read.
 */
#pragma once

#include <glib.h>

typedef struct VialEditor VialEditor;

typedef enum {
	VIAL_EDITOR_CELL,
	VIAL_EDITOR_CANCELLED, /* Ctrl-C */
	VIAL_EDITOR_END,       /* Ctrl-D, or the end of the input */
} VialEditorOutcome;

VialEditor *vial_editor_new(const char *language);
/*
 * Who knows what Tab may make of the text before the cursor. Its first word is the one that is being typed, the others what it may become, whole;
 * NULL or fewer than two: nothing. All are printable.
 */
typedef GStrv (*VialEditorComplete)(const char *before, gpointer data);
void vial_editor_set_completer(VialEditor *editor, VialEditorComplete complete, gpointer data);
void vial_editor_free(VialEditor *editor); /* saves the history */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialEditor, vial_editor_free)
/* Another language: another prompt, history and notion of what is complete. */
void vial_editor_set_language(VialEditor *editor, const char *language);
VialEditorOutcome vial_editor_read(VialEditor *editor, int number, char **out_cell);
