/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking for records, newest first. SQLite's planner knows nothing of how many records a word or a name has, and would rather sort a million than
 * walk them: so we choose what to go by. Every index gives its records in the order of their numbers; a stretch of time is turned into one of
 * numbers.
 */
#include <string.h>

#include "audit/db.h"
#include "audit/words.h"
#include "util/time.h"

/* Clocks are set back by so much without a word (audit.c). */
#define CLOCK_SLACK_MS 1000

typedef struct {
	VialAuditDb *db;
	GString *sql;
	const char *values[16];
	int count;
	gboolean is_by_words;
	const char *number; /* the record's, by whatever the search goes */
	const char *index;  /* "": none */
} Search;

static sqlite3_stmt *prepare(VialAuditDb *db, const char *sql)
{
	sqlite3_stmt *statement = NULL;

	return sqlite3_prepare_v2(vial_audit_db_handle(db), sql, -1, &statement, NULL) == SQLITE_OK ? statement : NULL;
}

/* Time */

/* By how much a record's time may be before that of an earlier one: each time that was more than a little, it was recorded. */
static gint64 read_slack_ms(VialAuditDb *db)
{
	sqlite3_stmt *statement = prepare(db, "SELECT ifnull(sum(json_extract(header, '$.clock_back_ms')), 0) + (count(*) + 1) * ?1"
	                                      " FROM records INDEXED BY records_action WHERE action = 'clock.back'");
	gint64 slack_ms = CLOCK_SLACK_MS;

	if (statement && sqlite3_bind_int64(statement, 1, CLOCK_SLACK_MS) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
		slack_ms = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return slack_ms;
}

/* The number and time of the first record at or behind `seq`; FALSE: there is none, or it has no time. */
static gboolean look_at(sqlite3_stmt *statement, gint64 seq, gint64 *out_seq, gint64 *out_time_ms)
{
	const char *time;
	gboolean is_found;

	sqlite3_reset(statement);
	sqlite3_bind_int64(statement, 1, seq);
	is_found = sqlite3_step(statement) == SQLITE_ROW && (time = (const char *)sqlite3_column_text(statement, 1)) &&
	           vial_time_parse(time, out_time_ms);
	if (is_found)
		*out_seq = sqlite3_column_int64(statement, 0);
	return is_found;
}

/*
 * Between which two numbers the time comes, in steps that halve what is left. Times only nearly ascend, but whoever asks has added the slack:
 * everything before *out_low is before the time that was meant, and everything from *out_high on is not.
 */
static void find_place(VialAuditDb *db, gint64 time_ms, gint64 *out_low, gint64 *out_high)
{
	sqlite3_stmt *statement = prepare(db, "SELECT seq, time FROM records NOT INDEXED WHERE seq >= ?1 ORDER BY seq LIMIT 1");
	sqlite3_stmt *newest = prepare(db, "SELECT max(seq) FROM records");
	gint64 low = 1, high = newest && sqlite3_step(newest) == SQLITE_ROW ? sqlite3_column_int64(newest, 0) + 1 : G_MAXINT64, seq, at_ms;

	/* One that somebody has made unreadable ends it: nothing is left out on its account. */
	while (statement && low < high && look_at(statement, low + (high - low) / 2, &seq, &at_ms)) {
		if (at_ms < time_ms)
			low = seq + 1;
		else
			high = low + (high - low) / 2;
	}
	*out_low = low;
	*out_high = MAX(low, high);
	sqlite3_finalize(statement);
	sqlite3_finalize(newest);
}

/* Which numbers can be within the filter's times at all: from *out_first on, and before *out_behind (0: no end). */
static void bound(VialAuditDb *db, const VialAuditFilter *filter, gint64 *out_first, gint64 *out_behind)
{
	gint64 slack_ms = filter->from || filter->to ? read_slack_ms(db) : 0, time_ms, unused;

	*out_first = 1;
	*out_behind = 0;
	if (filter->from && vial_time_parse(filter->from, &time_ms))
		find_place(db, time_ms - slack_ms, out_first, &unused);
	if (filter->to && vial_time_parse(filter->to, &time_ms))
		find_place(db, time_ms + slack_ms, &unused, out_behind);
}

/* What to go by */

/* What names the fewest first. The others are looked at in the records it gives. */
static const char *choose_index(const VialAuditFilter *filter, gboolean is_id)
{
	if (filter->trace_id)
		return "records_trace";
	if (filter->sandbox)
		return "records_sandbox";
	if (filter->session)
		return "records_session";
	if (filter->agent)
		return "records_agent";
	if (filter->principal)
		return is_id ? "records_principal" : "records_principal_name";
	if (filter->action)
		return filter->project ? "records_project_action" : "records_action";
	return filter->project ? "records_project" : "";
}

/* Whether there is such a principal by its id; else the text is a name. */
static gboolean is_principal_id(VialAuditDb *db, const char *text)
{
	sqlite3_stmt *statement = prepare(db, "SELECT 1 FROM records WHERE principal = ?1 LIMIT 1");
	gboolean is_id = statement && sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW;

	sqlite3_finalize(statement);
	return is_id;
}

static void add_condition(Search *search, const char *condition, const char *value)
{
	if (!value)
		return;
	search->values[search->count++] = value;
	g_string_append_printf(search->sql, " AND %s ?%d", condition, search->count);
}

/*
 * A name that is not what the search goes by: its index is asked whether it has this record, which takes a tenth of reading it. `by` is the index
 * that the search goes by, where this name is in it.
 */
static void add_name(Search *search, const char *column, const char *index, const char *value, const char *by)
{
	g_autofree char *condition = NULL;

	if (value && strcmp(search->index, index) != 0 && g_strcmp0(search->index, by) != 0) {
		search->values[search->count++] = value;
		g_string_append_printf(search->sql,
		                       " AND EXISTS (SELECT 1 FROM records AS named INDEXED BY %s WHERE named.%s = ?%d AND named.seq = %s)", index,
		                       column, search->count, search->number);
		return;
	}
	condition = g_strconcat(column, " =", NULL);
	add_condition(search, condition, value);
}

/* By the words, which come in the order of their records; or by something that names few, each looked up among the words. */
static void write_beginning(Search *search, const char *words)
{
	g_string_append(search->sql, "SELECT seq, hash, header, body FROM ");
	if (search->is_by_words)
		g_string_append(search->sql, "words CROSS JOIN records NOT INDEXED ON seq = words.rowid WHERE 1");
	else
		g_string_append_printf(search->sql, "records %s%s WHERE 1", *search->index ? "INDEXED BY " : "NOT INDEXED", search->index);
	if (!words)
		return;
	search->values[search->count++] = words;
	g_string_append_printf(search->sql,
	                       search->is_by_words ? " AND words MATCH ?%d"
	                                           : " AND EXISTS (SELECT 1 FROM words WHERE words MATCH ?%d AND words.rowid = seq)",
	                       search->count);
}

static void write_search(Search *search, const VialAuditFilter *filter, const char *words)
{
	gboolean is_id = filter->principal && is_principal_id(search->db, filter->principal);
	gint64 first, behind;

	search->is_by_words = words && !filter->trace_id && !filter->sandbox && !filter->session;
	search->number = search->is_by_words ? "words.rowid" : "records.seq";
	search->index = search->is_by_words ? "" : choose_index(filter, is_id);
	bound(search->db, filter, &first, &behind);
	if (filter->before > 0 && (behind == 0 || filter->before < behind))
		behind = filter->before;
	write_beginning(search, words);
	add_condition(search, "trace_id =", filter->trace_id);
	add_condition(search, "sandbox =", filter->sandbox);
	add_condition(search, "session =", filter->session);
	add_name(search, "agent", "records_agent", filter->agent, NULL);
	add_name(search, is_id ? "principal" : "principal_name", is_id ? "records_principal" : "records_principal_name", filter->principal, NULL);
	add_name(search, "action", "records_action", filter->action, "records_project_action");
	add_name(search, "project", "records_project", filter->project, "records_project_action");
	add_condition(search, "time >=", filter->from);
	add_condition(search, "time <", filter->to);
	if (first > 1)
		g_string_append_printf(search->sql, " AND %s >= %" G_GINT64_FORMAT, search->number, first);
	if (behind > 0)
		g_string_append_printf(search->sql, " AND %s < %" G_GINT64_FORMAT, search->number, behind);
	g_string_append_printf(search->sql, " ORDER BY %s DESC LIMIT %u", search->number, filter->limit);
}

gboolean vial_audit_db_find(VialAuditDb *db, const VialAuditFilter *filter, VialAuditEach each, gpointer data, GError **error)
{
	g_autoptr(GString) sql = g_string_new(NULL);
	g_autofree char *words = filter->text ? vial_audit_words_query(filter->text) : NULL;
	Search search = { .db = db, .sql = sql };
	sqlite3_stmt *statement;

	if (filter->text && !words) /* nothing that could be in any code */
		return TRUE;
	write_search(&search, filter, words);
	statement = prepare(db, sql->str);
	if (!statement)
		return vial_audit_db_fail(db, "searching", error);
	for (int i = 0; i < search.count; i++)
		sqlite3_bind_text(statement, i + 1, search.values[i], -1, SQLITE_STATIC);
	return vial_audit_db_rows(db, statement, each, data, error);
}
