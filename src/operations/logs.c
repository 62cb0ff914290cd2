/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/logs.h"

#include <string.h>

#include "audit/query.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/calls.h"
#include "util/time.h"

/* Calls of an earlier viald that are told. */
#define MAX_EARLIER_CALLS 200

struct VialLogs {
	VialSandbox *sandbox;
	const VialLogSink *sink;
	gpointer data;
	gboolean does_follow;
	int stream; /* a VialJournalStream, or -1 for all */
	guint64 limit;
	GPtrArray *earlier; /* VialJournalLine: calls before the journal began */
	guint64 next;       /* the number of the next line to send */
	gboolean is_full;   /* the sink has enough for now */
	gboolean is_sending;
	gboolean is_over; /* cancelled, while the store was asked or a line was being sent */
	gboolean is_begun;
};

static void logs_free(VialLogs *logs)
{
	vial_journal_unfollow(vial_sandbox_journal(logs->sandbox), logs);
	g_ptr_array_unref(logs->earlier);
	vial_sandbox_unref(logs->sandbox);
	g_free(logs);
}

static void send_line(VialLogs *logs, const VialJournalLine *line)
{
	if (logs->stream < 0 || (int)line->stream == logs->stream)
		logs->is_full = logs->sink->line(line, logs->data);
}

static VialJournalLine *make_line(gint64 time_ms, const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);
	gsize size = strlen(valid);
	VialJournalLine *line = g_malloc(sizeof(*line) + size + 1);

	line->time_ms = time_ms;
	line->stream = VIAL_JOURNAL_EVENT;
	line->size_bytes = size;
	memcpy(line->text, g_strdelimit(valid, "\r\n", ' '), size + 1);
	return line;
}

static void tell_lost(VialLogs *logs, guint64 lost)
{
	g_autofree char *text = g_strdup_printf("(%" G_GUINT64_FORMAT " lines are lost: they were not read in time)", lost);
	g_autofree VialJournalLine *line = make_line(vial_time_now_ms(), text);

	send_line(logs, line);
}

/* What the journal has and the sink takes. */
static void send_lines(VialLogs *logs)
{
	VialJournal *journal = vial_sandbox_journal(logs->sandbox);

	if (logs->next < vial_journal_first(journal)) {
		tell_lost(logs, vial_journal_first(journal) - logs->next);
		logs->next = vial_journal_first(journal);
	}
	while (!logs->is_over && !logs->is_full && logs->next < vial_journal_next(journal))
		send_line(logs, vial_journal_get(journal, logs->next++));
}

/* Sends what there is; FALSE when that was all there will ever be, and it is over. */
static gboolean go_on(VialLogs *logs)
{
	VialJournal *journal = vial_sandbox_journal(logs->sandbox);

	logs->is_sending = TRUE;
	send_lines(logs);
	logs->is_sending = FALSE;
	if (!logs->is_over && (logs->is_full || (logs->does_follow && !vial_journal_is_closed(journal))))
		return TRUE;
	if (!logs->is_over)
		logs->sink->end(logs->data);
	logs_free(logs);
	return FALSE;
}

void vial_logs_drained(VialLogs *logs)
{
	logs->is_full = FALSE;
	if (logs->is_begun && !logs->is_sending)
		go_on(logs);
}

void vial_logs_cancel(VialLogs *logs)
{
	if (!logs)
		return;
	if (logs->is_begun && !logs->is_sending)
		logs_free(logs);
	else
		logs->is_over = TRUE;
}

static void on_changed(VialJournal *journal, gpointer data)
{
	VialLogs *logs = data;

	if (!logs->is_sending)
		go_on(logs);
}

/* Where to begin so that at most `limit` lines come, counting those of the wanted stream only. */
static void apply_limit(VialLogs *logs)
{
	VialJournal *journal = vial_sandbox_journal(logs->sandbox);
	guint64 wanted = logs->limit;

	logs->next = vial_journal_next(journal);
	while (wanted > 0 && logs->next > vial_journal_first(journal)) {
		const VialJournalLine *line = vial_journal_get(journal, --logs->next);

		if (logs->stream < 0 || (int)line->stream == logs->stream)
			wanted--;
	}
	if (logs->earlier->len > wanted)
		g_ptr_array_remove_range(logs->earlier, 0, logs->earlier->len - (guint)wanted);
}

static void begin(VialLogs *logs)
{
	logs->is_begun = TRUE;
	apply_limit(logs);
	logs->is_sending = TRUE;
	logs->sink->begun(logs->data);
	for (guint i = 0; i < logs->earlier->len && !logs->is_over; i++)
		send_line(logs, logs->earlier->pdata[i]);
	if (go_on(logs) && logs->does_follow)
		vial_journal_follow(vial_sandbox_journal(logs->sandbox), on_changed, logs);
}

/* Earlier calls */

static VialJournalLine *call_line(const json_t *record)
{
	const char *action = json_string_value(json_object_get(record, "action")), *id = json_string_value(json_object_get(record, "operation"));
	const char *outcome = json_string_value(json_object_get(record, "outcome")), *time = json_string_value(json_object_get(record, "time"));
	const json_t *exit_code = json_object_get(record, "exit_code");
	g_autofree char *shown = vial_call_describe(json_object_get(record, "body"));
	g_autofree char *exit_text =
		json_is_integer(exit_code) ? g_strdup_printf(", exit_code %d", (int)json_integer_value(exit_code)) : g_strdup("");
	g_autofree char *text = g_strdup_printf("%s %s %s%s: %s", action ? action : "?", id ? id : "?", outcome ? outcome : "?", exit_text, shown);
	gint64 time_ms = 0;

	if (time)
		vial_time_parse(time, &time_ms);
	return make_line(time_ms, text);
}

/* What the journal calls a call, and that it is over. */
static gboolean is_call(const json_t *record)
{
	static const char *const actions[] = { "run", "exec", "pty", NULL };
	const char *action = json_string_value(json_object_get(record, "action"));

	return action && g_strv_contains(actions, action) && g_strcmp0(json_string_value(json_object_get(record, "outcome")), "begun") != 0;
}

static void on_calls(json_t *page, const GError *error, gpointer data)
{
	VialLogs *logs = data;
	gint64 begun_at_ms = vial_journal_begun_at_ms(vial_sandbox_journal(logs->sandbox));
	const json_t *items = json_object_get(page, "items");

	if (logs->is_over)
		return logs_free(logs);
	/* They come newest first. */
	for (gsize i = json_array_size(items); i > 0 && (logs->stream < 0 || logs->stream == VIAL_JOURNAL_EVENT); i--) {
		const json_t *record = json_array_get(items, i - 1);
		VialJournalLine *line = is_call(record) ? call_line(record) : NULL;

		if (line && line->time_ms < begun_at_ms)
			g_ptr_array_add(logs->earlier, line);
		else
			g_free(line);
	}
	begin(logs);
}

/* Beginning */

static gboolean read_stream(const char *text, int *out, GError **error)
{
	*out = -1;
	if (!text || strcmp(text, "both") == 0)
		return TRUE;
	for (*out = VIAL_JOURNAL_EVENT; *out <= VIAL_JOURNAL_STDERR; (*out)++)
		if (strcmp(text, vial_journal_stream_name((VialJournalStream)*out)) == 0)
			return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID, "field \"stream\" must be stdout, stderr, event or both");
}

VialLogs *vial_op_logs(const VialCaller *caller, const char *sandbox_id, const VialLogRequest *request, const VialLogSink *sink, gpointer data,
                       GError **error)
{
	VialSandbox *sandbox;
	VialLogs *logs;
	int stream;

	if (!vial_operation_admit(caller, VIAL_VERB_LOGS, sandbox_id, 0, &sandbox, error) || !read_stream(request->stream, &stream, error) ||
	    !vial_check_int("limit", request->limit, 0, VIAL_LOG_MAX_LINES, error))
		return NULL;
	logs = g_new0(VialLogs, 1);
	*logs = (VialLogs){
		.sandbox = vial_sandbox_ref(sandbox),
		.sink = sink,
		.data = data,
		.does_follow = request->follow,
		.stream = stream,
		.limit = request->limit == VIAL_UNSAID ? VIAL_LOG_MAX_LINES : (guint64)request->limit,
		.earlier = g_ptr_array_new_with_free_func(g_free),
	};
	vial_audit_find(caller->app->audit, &(VialAuditFilter){ .sandbox = vial_sandbox_id(sandbox), .limit = MAX_EARLIER_CALLS }, on_calls, logs);
	return logs;
}
