/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal.h"

#include <string.h>

#include "util/time.h"

/* What a line costs besides its text, counted so that a flood of empty lines is bounded, too. */
#define LINE_OVERHEAD_BYTES 64

typedef struct {
	VialJournalFunc changed;
	gpointer data;
} Follower;

struct VialJournal {
	int refs;
	gint64 begun_at_ms;
	gboolean is_closed;
	GPtrArray *lines; /* VialJournalLine; those before `start` have fallen out */
	guint start;
	guint64 first; /* the number of the line at `start` */
	gsize size_bytes;
	GPtrArray *followers; /* Follower */
};

VialJournal *vial_journal_new(void)
{
	VialJournal *journal = g_new0(VialJournal, 1);

	journal->refs = 1;
	journal->begun_at_ms = vial_time_now_ms();
	journal->lines = g_ptr_array_new_with_free_func(g_free);
	journal->followers = g_ptr_array_new_with_free_func(g_free);
	return journal;
}

VialJournal *vial_journal_ref(VialJournal *journal)
{
	journal->refs++;
	return journal;
}

void vial_journal_unref(VialJournal *journal)
{
	if (!journal || --journal->refs > 0)
		return;
	g_ptr_array_unref(journal->lines);
	g_ptr_array_unref(journal->followers);
	g_free(journal);
}

gint64 vial_journal_begun_at_ms(const VialJournal *journal)
{
	return journal->begun_at_ms;
}

const char *vial_journal_stream_name(VialJournalStream stream)
{
	static const char *const names[] = { [VIAL_JOURNAL_EVENT] = "event", [VIAL_JOURNAL_STDOUT] = "stdout", [VIAL_JOURNAL_STDERR] = "stderr" };

	return names[stream];
}

/* Followers may leave while they are being told: walk backwards, and look each time. */
static void tell(VialJournal *journal)
{
	vial_journal_ref(journal);
	for (guint i = journal->followers->len; i > 0; i--) {
		Follower *follower = i <= journal->followers->len ? journal->followers->pdata[i - 1] : NULL;

		if (follower)
			follower->changed(journal, follower->data);
	}
	vial_journal_unref(journal);
}

static void drop_oldest(VialJournal *journal)
{
	VialJournalLine *line = journal->lines->pdata[journal->start];

	journal->size_bytes -= line->size_bytes + LINE_OVERHEAD_BYTES;
	g_clear_pointer(&journal->lines->pdata[journal->start], g_free);
	journal->start++;
	journal->first++;
	if (journal->start < journal->lines->len / 2 || journal->start < 64)
		return;
	g_ptr_array_remove_range(journal->lines, 0, journal->start);
	journal->start = 0;
}

static void append(VialJournal *journal, VialJournalStream stream, const char *text, gsize size)
{
	VialJournalLine *line = g_malloc(sizeof(*line) + size + 1);

	line->time_ms = vial_time_now_ms();
	line->stream = stream;
	line->size_bytes = size;
	memcpy(line->text, text, size);
	line->text[size] = '\0';
	g_ptr_array_add(journal->lines, line);
	journal->size_bytes += size + LINE_OVERHEAD_BYTES;
	while (journal->size_bytes > VIAL_JOURNAL_MAX_BYTES)
		drop_oldest(journal);
}

void vial_journal_add(VialJournal *journal, VialJournalStream stream, const char *text, gsize size)
{
	if (journal->is_closed)
		return;
	append(journal, stream, text, MIN(size, VIAL_JOURNAL_MAX_LINE_BYTES));
	tell(journal);
}

void vial_journal_add_event(VialJournal *journal, const char *format, ...)
{
	g_autofree char *text = NULL;
	g_autofree char *valid = NULL;
	va_list args;

	va_start(args, format);
	text = g_strdup_vprintf(format, args);
	va_end(args);
	for (char *c = text; *c; c++)
		if ((guchar)*c < 0x20 || *c == 0x7f)
			*c = ' ';
	valid = g_utf8_make_valid(text, -1);
	vial_journal_add(journal, VIAL_JOURNAL_EVENT, valid, strlen(valid));
}

void vial_journal_close(VialJournal *journal)
{
	if (journal->is_closed)
		return;
	journal->is_closed = TRUE;
	tell(journal);
}

void vial_journal_reopen(VialJournal *journal)
{
	journal->is_closed = FALSE;
}

gboolean vial_journal_is_closed(const VialJournal *journal)
{
	return journal->is_closed;
}

guint64 vial_journal_first(const VialJournal *journal)
{
	return journal->first;
}

guint64 vial_journal_next(const VialJournal *journal)
{
	return journal->first + journal->lines->len - journal->start;
}

const VialJournalLine *vial_journal_get(const VialJournal *journal, guint64 number)
{
	if (number < journal->first || number >= vial_journal_next(journal))
		return NULL;
	return journal->lines->pdata[journal->start + (guint)(number - journal->first)];
}

void vial_journal_follow(VialJournal *journal, VialJournalFunc changed, gpointer data)
{
	Follower *follower = g_new(Follower, 1);

	*follower = (Follower){ .changed = changed, .data = data };
	g_ptr_array_add(journal->followers, follower);
}

void vial_journal_unfollow(VialJournal *journal, gpointer data)
{
	for (guint i = 0; i < journal->followers->len; i++)
		if (((Follower *)journal->followers->pdata[i])->data == data) {
			g_ptr_array_remove_index(journal->followers, i);
			return;
		}
}

/* Writers */

void vial_journal_writer_init(VialJournalWriter *writer, VialJournal *journal)
{
	memset(writer, 0, sizeof(*writer));
	writer->journal = vial_journal_ref(journal);
}

static void end_line(VialJournalWriter *writer, unsigned index)
{
	GString *line = writer->partial[index];

	if (line->len > 0 && line->str[line->len - 1] == '\r')
		g_string_truncate(line, line->len - 1);
	append(writer->journal, VIAL_JOURNAL_STDOUT + index, line->str, line->len);
	g_string_truncate(line, 0);
}

static void add_text(VialJournalWriter *writer, unsigned index, const char *text, gsize size)
{
	GString *line = writer->partial[index];

	while (size > 0) {
		const char *end = memchr(text, '\n', size);
		gsize room = VIAL_JOURNAL_MAX_LINE_BYTES - line->len;
		gsize piece = end ? (gsize)(end - text) : size;

		if (piece > room) { /* cut between characters */
			for (piece = room; piece > 0 && ((guchar)text[piece] & 0xc0) == 0x80; piece--)
				;
			end = NULL;
		}
		g_string_append_len(line, text, (gssize)piece);
		if (end || piece < size)
			end_line(writer, index);
		piece += end ? 1 : 0;
		text += piece;
		size -= piece;
	}
}

static void tell_left_out(VialJournalWriter *writer)
{
	if (writer->left_out_bytes > 0)
		vial_journal_add_event(writer->journal, "(%" G_GUINT64_FORMAT " bytes of output are left out)", writer->left_out_bytes);
	writer->left_out_bytes = 0;
}

void vial_journal_writer_add(VialJournalWriter *writer, VialJournalStream stream, const void *bytes, gsize size)
{
	unsigned index = stream == VIAL_JOURNAL_STDERR;
	gint64 now_ms = vial_time_monotonic_ms();
	g_autoptr(GString) text = NULL;

	if (writer->journal->is_closed)
		return;
	if (now_ms - writer->window_ms >= VIAL_JOURNAL_WINDOW_MS) {
		tell_left_out(writer);
		writer->window_ms = now_ms;
		writer->window_bytes = 0;
	}
	/* Taking a flood apart into lines would cost more than moving it. */
	if (writer->window_bytes >= VIAL_JOURNAL_WINDOW_BYTES) {
		writer->left_out_bytes += size;
		return;
	}
	writer->window_bytes += size;
	if (size > VIAL_JOURNAL_WINDOW_BYTES) {
		writer->left_out_bytes += size - VIAL_JOURNAL_WINDOW_BYTES;
		size = VIAL_JOURNAL_WINDOW_BYTES;
	}
	if (!writer->partial[index])
		writer->partial[index] = g_string_new(NULL);
	text = g_string_sized_new(size);
	vial_utf8_feed(&writer->utf8[index], bytes, size, text);
	add_text(writer, index, text->str, text->len);
	tell(writer->journal);
}

void vial_journal_writer_clear(VialJournalWriter *writer)
{
	if (!writer->journal)
		return;
	for (unsigned index = 0; index < 2; index++) {
		if (!writer->partial[index])
			continue;
		if (writer->partial[index]->len > 0 && !writer->journal->is_closed)
			end_line(writer, index);
		g_string_free(writer->partial[index], TRUE);
	}
	tell_left_out(writer);
	tell(writer->journal);
	g_clear_pointer(&writer->journal, vial_journal_unref);
}
