/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET …/logs: what happened in a sandbox, oldest first: its life cycle, the calls, what they printed. It never wakes the
 * sandbox, and works for one that has failed. As text, as JSON, or followed: as server-sent events or as text that goes on.
 *
 * The lines come from the journal in memory; the calls of an earlier viald from the store. A follower that reads slowly
 * loses lines, and is told how many, once they have fallen out of the journal.
 */
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "service/calls.h"
#include "service/journal.h"
#include "util/json.h"
#include "util/time.h"

#define MAX_LIMIT 100000
/* Calls of an earlier viald that are told. */
#define MAX_EARLIER_CALLS 200

typedef enum { FORM_TEXT, FORM_JSON, FORM_EVENTS } Form;

typedef struct {
	VialRequest *request;
	VialSandbox *sandbox;
	Form form;
	gboolean does_follow;
	int stream; /* a VialJournalStream, or -1 for all */
	guint64 limit;
	GPtrArray *earlier; /* VialJournalLine: calls before the journal began */
	json_t *items;      /* FORM_JSON */
	guint64 next;       /* the number of the next line to send */
	gboolean is_full;   /* the client has enough for now */
	gboolean is_gone;   /* the client, while the store was asked */
	gboolean is_begun;
} Logs;

static void logs_free(Logs *logs)
{
	vial_journal_unfollow(logs->sandbox->journal, logs);
	vial_request_on_gone(logs->request, NULL, NULL);
	g_ptr_array_unref(logs->earlier);
	json_decref(logs->items);
	vial_sandbox_unref(logs->sandbox);
	vial_request_unref(logs->request);
	g_free(logs);
}

/* One line in the form that was asked for */

/* A single stream is shown as it was printed; all together need to be told apart. */
static char *show(const Logs *logs, const VialJournalLine *line)
{
	char time[VIAL_TIME_TEXT_SIZE];

	if (logs->stream >= 0)
		return g_strndup(line->text, line->size_bytes);
	vial_time_fill(time, line->time_ms);
	return g_strdup_printf("%s %-6s %s", time, vial_journal_stream_name(line->stream), line->text);
}

static json_t *line_json(const VialJournalLine *line)
{
	char time[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(time, line->time_ms);
	return json_pack("{s:s, s:s, s:o}", "time", time, "stream", vial_journal_stream_name(line->stream), "text",
	                 json_stringn(line->text, line->size_bytes));
}

static void send_line(Logs *logs, const VialJournalLine *line)
{
	g_autofree char *shown = NULL;
	gsize queued = 0;
	json_t *json;

	if (logs->stream >= 0 && (int)line->stream != logs->stream)
		return;
	if (logs->form == FORM_JSON) {
		json_array_append_new(logs->items, line_json(line));
		return;
	}
	shown = show(logs, line);
	if (logs->form == FORM_EVENTS) {
		json = line_json(line);
		json_object_set_new(json, "line", json_string(shown));
		queued = vial_request_sse_send(logs->request, "log", json);
	} else {
		gsize size = strlen(shown);

		shown[size] = '\n'; /* in place of the NUL: the bytes have a length of their own */
		queued = vial_request_stream_write(logs->request, g_bytes_new_take(g_steal_pointer(&shown), size + 1));
	}
	logs->is_full = queued > VIAL_BODY_HIGH_BYTES;
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

/* Sending */

static void tell_lost(Logs *logs, guint64 lost)
{
	g_autofree char *text = g_strdup_printf("(%" G_GUINT64_FORMAT " lines are lost: they were not read in time)", lost);
	g_autofree VialJournalLine *line = make_line(vial_time_now_ms(), text);

	send_line(logs, line);
}

/* What the journal has and the client wants. */
static void send_lines(Logs *logs)
{
	VialJournal *journal = logs->sandbox->journal;

	if (logs->next < vial_journal_first(journal)) {
		tell_lost(logs, vial_journal_first(journal) - logs->next);
		logs->next = vial_journal_first(journal);
	}
	while (!logs->is_full && logs->next < vial_journal_next(journal))
		send_line(logs, vial_journal_get(journal, logs->next++));
}

static void finish(Logs *logs)
{
	if (logs->form == FORM_JSON)
		vial_request_reply_json(logs->request, 200, json_incref(logs->items));
	else
		vial_request_stream_end(logs->request);
	logs_free(logs);
}

/* Sends what there is; FALSE when that was all there will ever be, and the request is over. */
static gboolean go_on(Logs *logs)
{
	VialJournal *journal = logs->sandbox->journal;

	send_lines(logs);
	if (logs->is_full || (logs->does_follow && !vial_journal_is_closed(journal)))
		return TRUE;
	finish(logs);
	return FALSE;
}

static void on_drained(VialRequest *request, gpointer data)
{
	Logs *logs = data;

	logs->is_full = FALSE;
	go_on(logs);
}

static void on_changed(VialJournal *journal, gpointer data)
{
	go_on(data);
}

static void on_gone(VialRequest *request, gpointer data)
{
	Logs *logs = data;

	if (logs->is_begun)
		logs_free(logs);
	else
		logs->is_gone = TRUE;
}

/* Where to begin so that at most `limit` lines come, counting those of the wanted stream only. */
static void apply_limit(Logs *logs)
{
	VialJournal *journal = logs->sandbox->journal;
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

static void begin(Logs *logs)
{
	logs->is_begun = TRUE;
	apply_limit(logs);
	if (logs->form == FORM_EVENTS)
		vial_request_sse_begin(logs->request, on_drained, logs);
	else if (logs->form == FORM_TEXT) {
		vial_request_set_header(logs->request, "X-Content-Type-Options", "nosniff");
		vial_request_set_header(logs->request, "Cache-Control", "no-store");
		vial_request_stream_begin(logs->request, 200, "text/plain; charset=utf-8", -1, on_drained, logs);
	}
	for (guint i = 0; i < logs->earlier->len; i++)
		send_line(logs, logs->earlier->pdata[i]);
	if (go_on(logs) && logs->does_follow)
		vial_journal_follow(logs->sandbox->journal, on_changed, logs);
}

/* Earlier calls */

static VialJournalLine *call_line(const VialCallRecord *record)
{
	g_autoptr(json_t) detail = vial_json_parse_object(record->detail, strlen(record->detail), NULL);
	const json_t *exit_code = json_object_get(detail, "exit_code");
	g_autofree char *shown = detail ? vial_call_describe(detail) : g_strdup("?");
	g_autofree char *outcome = json_is_integer(exit_code) ? g_strdup_printf(", exit_code %d", (int)json_integer_value(exit_code)) : g_strdup("");
	g_autofree char *text = g_strdup_printf("%s %s %s%s: %s", record->kind, record->id, record->status, outcome, shown);

	return make_line(record->started_at, text);
}

static void on_calls(GPtrArray *records, const GError *error, gpointer data)
{
	Logs *logs = data;
	gint64 begun_at_ms = vial_journal_begun_at_ms(logs->sandbox->journal);

	if (logs->is_gone)
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

static gboolean read_follow(VialRequest *request, gboolean *out, GError **error)
{
	const char *text = vial_request_query(request, "follow");

	*out = text && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
	if (!text || *out || strcmp(text, "0") == 0 || strcmp(text, "false") == 0)
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID, "follow must be true or false");
}

static gboolean read_stream(VialRequest *request, int *out, GError **error)
{
	const char *text = vial_request_query(request, "stream");

	*out = -1;
	if (!text || strcmp(text, "both") == 0)
		return TRUE;
	for (*out = VIAL_JOURNAL_EVENT; *out <= VIAL_JOURNAL_STDERR; (*out)++)
		if (strcmp(text, vial_journal_stream_name((VialJournalStream)*out)) == 0)
			return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID, "stream must be stdout, stderr, event or both");
}

static gboolean read_limit(VialRequest *request, guint64 *out, GError **error)
{
	const char *text = vial_request_query(request, "limit");

	*out = MAX_LIMIT;
	if (!text || g_ascii_string_to_unsigned(text, 10, 0, MAX_LIMIT, out, NULL))
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID, "limit must be a number of lines between 0 and %d", MAX_LIMIT);
}

static Form choose_form(VialRequest *request, gboolean does_follow)
{
	const char *accept = vial_request_header(request, "Accept");

	if (does_follow)
		return accept && strstr(accept, "text/event-stream") ? FORM_EVENTS : FORM_TEXT;
	return accept && strstr(accept, "application/json") ? FORM_JSON : FORM_TEXT;
}

void vial_api_logs(VialRequest *request)
{
	VialApp *app = vial_request_app(request);
	VialSandbox *sandbox = vial_guest_sandbox(request);
	g_autoptr(GError) error = NULL;
	gboolean does_follow;
	guint64 limit;
	int stream;
	Logs *logs;

	if (!sandbox)
		return;
	if (!read_follow(request, &does_follow, &error) || !read_stream(request, &stream, &error) || !read_limit(request, &limit, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	logs = g_new0(Logs, 1);
	logs->request = vial_request_ref(request);
	logs->sandbox = vial_sandbox_ref(sandbox);
	logs->form = choose_form(request, does_follow);
	logs->does_follow = does_follow;
	logs->stream = stream;
	logs->limit = limit;
	logs->earlier = g_ptr_array_new_with_free_func(g_free);
	logs->items = logs->form == FORM_JSON ? json_array() : NULL;
	vial_request_on_gone(request, on_gone, logs);
	vial_store_list_calls(app->store, sandbox->id, MAX_EARLIER_CALLS, on_calls, logs);
}
