/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened in a sandbox, in both versions of the route: lines with a time each, which are numbered by it. Version 1 goes forward from `start`;
 * version 2 from its cursor in either direction, and picks by level and words.
 */
#include "operations/logs.h"

#include <string.h>

#include "operations/limits.h"
#include "operations/validate.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"
#include "util/time.h"

typedef struct {
	VialRequest *request;
	VialLogs *logs;
	gboolean is_v2, is_backward;
	gint64 from_ms, limit; /* from there on; backward: up to there */
	char *level, *search;  /* NULL: any */
	GQueue entries;        /* json_t, oldest first */
} Log;

static void log_free(Log *log)
{
	vial_request_on_gone(log->request, NULL, NULL);
	g_queue_clear_full(&log->entries, (GDestroyNotify)json_decref);
	vial_request_unref(log->request);
	g_free(log->level);
	g_free(log->search);
	g_free(log);
}

static const char *level_of(const VialJournalLine *line)
{
	return line->stream == VIAL_JOURNAL_STDERR ? "error" : "info";
}

static gboolean is_wanted(const Log *log, const VialJournalLine *line)
{
	if (log->is_backward ? line->time_ms > log->from_ms : line->time_ms < log->from_ms)
		return FALSE;
	return (!log->level || strcmp(log->level, level_of(line)) == 0) && (!log->search || strstr(line->text, log->search));
}

/* Of those there are: the first so many, or, backward, the last. */
static gboolean on_line(const VialJournalLine *line, gpointer data)
{
	Log *log = data;
	char time[VIAL_TIME_TEXT_SIZE];

	if (!is_wanted(log, line) || (!log->is_backward && log->entries.length == log->limit))
		return FALSE;
	vial_time_fill(time, line->time_ms);
	g_queue_push_tail(&log->entries,
	                  json_pack("{s:s, s:o, s:s, s:{s:s}}", "timestamp", time, "message", json_stringn(line->text, line->size_bytes), "level",
	                            level_of(line), "fields", "stream", vial_journal_stream_name(line->stream)));
	if (log->entries.length > log->limit)
		json_decref(g_queue_pop_head(&log->entries));
	return FALSE;
}

static void on_begun(gpointer data)
{
}

static json_t *line_json(json_t *entry)
{
	return json_pack("{s:O, s:O}", "timestamp", json_object_get(entry, "timestamp"), "line", json_object_get(entry, "message"));
}

static void on_end(gpointer data)
{
	Log *log = data;
	json_t *entries = json_array(), *lines = json_array();

	for (GList *link = log->is_backward ? log->entries.tail : log->entries.head; link; link = log->is_backward ? link->prev : link->next) {
		json_array_append(entries, link->data);
		json_array_append_new(lines, line_json(link->data));
	}
	vial_request_reply_json(log->request, 200,
	                        log->is_v2 ? json_pack("{s:o}", "logs", json_incref(entries))
	                                   : json_pack("{s:O, s:O}", "logs", lines, "logEntries", entries));
	json_decref(entries);
	json_decref(lines);
	log_free(log);
}

static void on_gone(VialRequest *request, gpointer data)
{
	Log *log = data;

	vial_logs_cancel(log->logs);
	log_free(log);
}

static gboolean decode(VialRequest *request, Log *log, GError **error)
{
	const char *direction = vial_request_query(request, "direction"), *level = vial_request_query(request, "level");
	static const char *const directions[] = { "forward", "backward", NULL };
	static const char *const levels[] = { "debug", "info", "warn", "error", NULL };

	if (direction && !g_strv_contains(directions, direction))
		return vial_fail(error, VIAL_ERROR_INVALID, "direction is forward or backward");
	if (level && !g_strv_contains(levels, level))
		return vial_fail(error, VIAL_ERROR_INVALID, "level is debug, info, warn or error");
	log->is_backward = g_strcmp0(direction, "backward") == 0;
	log->from_ms = log->is_backward ? G_MAXINT64 : 0;
	log->limit = VIAL_LOG_PAGE;
	log->level = g_strdup(level);
	log->search = g_strdup(vial_request_query(request, "search"));
	return vial_decode_query_int(request, log->is_v2 ? "cursor" : "start", &log->from_ms, error) &&
	       vial_decode_query_int(request, "limit", &log->limit, error) && vial_check_int("limit", log->limit, 0, VIAL_LOG_PAGE, error);
}

static void tell(VialRequest *request, gboolean is_v2)
{
	static const VialLogSink sink = { .begun = on_begun, .line = on_line, .end = on_end };
	VialCaller caller = vial_surface_caller(request);
	VialLogRequest wanted = { .limit = VIAL_UNSAID };
	Log *log = g_new0(Log, 1);
	GError *error = NULL;

	*log = (Log){ .request = vial_request_ref(request), .is_v2 = is_v2 };
	if (decode(request, log, &error))
		log->logs = vial_op_logs(&caller, vial_surface_sandbox(request), &wanted, &sink, log, &error);
	if (log->logs) {
		vial_request_on_gone(request, on_gone, log);
		return;
	}
	vial_request_reply_error(request, error);
	log_free(log);
}

void vial_e2b_logs(VialRequest *request)
{
	tell(request, FALSE);
}

void vial_e2b_logs_v2(VialRequest *request)
{
	tell(request, TRUE);
}
