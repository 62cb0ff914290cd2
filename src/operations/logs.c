/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/logs.h"

#include <string.h>

#include "operations/limits.h"
#include "operations/validate.h"
#include "service/calls.h"
#include "util/json.h"
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

static int exit_code_of(const char *text, gboolean *out_has)
{
	g_autoptr(json_t) json = vial_json_parse_object(text, strlen(text), NULL);
	const json_t *exit_code = json_object_get(json, "exit_code");

	*out_has = json_is_integer(exit_code);
	return *out_has ? (int)json_integer_value(exit_code) : 0;
}

static VialJournalLine *call_line(const VialCallRecord *record)
{
	g_autoptr(json_t) detail = vial_json_parse_object(record->detail, strlen(record->detail), NULL);
	g_autofree char *shown = detail ? vial_call_describe(detail) : g_strdup("?");
	gboolean has_exit_code;
	int exit_code = exit_code_of(record->outcome, &has_exit_code);
	g_autofree char *outcome = has_exit_code ? g_strdup_printf(", exit_code %d", exit_code) : g_strdup("");
	g_autofree char *text = g_strdup_printf("%s %s %s%s: %s", record->kind, record->id, record->status, outcome, shown);

	return make_line(record->started_at, text);
}

static void on_calls(GPtrArray *records, const GError *error, gpointer data)
{
	VialLogs *logs = data;
	gint64 begun_at_ms = vial_journal_begun_at_ms(vial_sandbox_journal(logs->sandbox));

	if (logs->is_over)
		return logs_free(logs);
	/* They come newest first. */
	for (guint i = records ? records->len : 0; i > 0; i--) {
		const VialCallRecord *record = records->pdata[i - 1];

		if (record->started_at < begun_at_ms && (logs->stream < 0 || logs->stream == VIAL_JOURNAL_EVENT))
			g_ptr_array_add(logs->earlier, call_line(record));
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
	vial_store_list_calls(caller->app->store, vial_sandbox_id(sandbox), MAX_EARLIER_CALLS, on_calls, logs);
	return logs;
}
