/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened in a sandbox lately, line by line: its life cycle, its calls, what they printed. A bounded ring in memory;
 * the lasting record of calls is the store's. Lines are numbered from 0 and never renumbered; old ones fall out. Main
 * thread only.
 */
#pragma once

#include <glib.h>

#include "util/utf8.h"

#define VIAL_JOURNAL_MAX_BYTES (256 * 1024)
/* A longer line is cut into several. */
#define VIAL_JOURNAL_MAX_LINE_BYTES 4096
/* Of one call's output, in any VIAL_JOURNAL_WINDOW_MS; what goes beyond is counted and left out. */
#define VIAL_JOURNAL_WINDOW_BYTES (64 * 1024)
#define VIAL_JOURNAL_WINDOW_MS 100

typedef enum {
	VIAL_JOURNAL_EVENT,
	VIAL_JOURNAL_STDOUT,
	VIAL_JOURNAL_STDERR,
} VialJournalStream;

typedef struct {
	gint64 time_ms;
	VialJournalStream stream;
	gsize size_bytes;
	char text[]; /* UTF-8 without a line end, NUL-terminated */
} VialJournalLine;

typedef struct VialJournal VialJournal;

VialJournal *vial_journal_new(void);
VialJournal *vial_journal_ref(VialJournal *journal);
void vial_journal_unref(VialJournal *journal); /* accepts NULL */

gint64 vial_journal_begun_at_ms(const VialJournal *journal);
const char *vial_journal_stream_name(VialJournalStream stream); /* event, stdout, stderr */

/* One line. An event's text is ours, yet may quote what a client sent: control characters become spaces. */
void vial_journal_add(VialJournal *journal, VialJournalStream stream, const char *text, gsize size);
void vial_journal_add_event(VialJournal *journal, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Nothing more will come. */
void vial_journal_close(VialJournal *journal);
/* Unless the sandbox comes back. */
void vial_journal_reopen(VialJournal *journal);
gboolean vial_journal_is_closed(const VialJournal *journal);

/* The lines there are: numbers from first to next - 1. */
guint64 vial_journal_first(const VialJournal *journal);
guint64 vial_journal_next(const VialJournal *journal);
const VialJournalLine *vial_journal_get(const VialJournal *journal, guint64 number); /* NULL if it is not there */

/* `changed` is called after each line and after the close, until unfollow(). It may unfollow itself. */
typedef void (*VialJournalFunc)(VialJournal *journal, gpointer data);
void vial_journal_follow(VialJournal *journal, VialJournalFunc changed, gpointer data);
void vial_journal_unfollow(VialJournal *journal, gpointer data);

/* The output of one call, which arrives in pieces that know nothing of lines. */
typedef struct {
	VialJournal *journal;
	GString *partial[2];
	VialUtf8 utf8[2];
	gint64 window_ms;
	gsize window_bytes;
	guint64 left_out_bytes;
} VialJournalWriter;

void vial_journal_writer_init(VialJournalWriter *writer, VialJournal *journal);
void vial_journal_writer_add(VialJournalWriter *writer, VialJournalStream stream, const void *bytes, gsize size);
/* Writes out what is left. */
void vial_journal_writer_clear(VialJournalWriter *writer);
