/* SPDX-License-Identifier: Apache-2.0 */
/* GET …/logs: as text, as JSON, or followed: as server-sent events or as text that goes on. */
#include "operations/logs.h"

#include <string.h>

#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"
#include "util/time.h"

typedef enum { FORM_TEXT, FORM_JSON, FORM_EVENTS } Form;

typedef struct {
	VialRequest *request;
	VialLogs *logs;
	Form form;
	gboolean is_single; /* one stream only */
	json_t *items;      /* FORM_JSON */
} Log;

static void log_free(Log *log)
{
	vial_request_on_gone(log->request, NULL, NULL);
	json_decref(log->items);
	vial_request_unref(log->request);
	g_free(log);
}

/* A single stream is shown as it was printed; all together need to be told apart. */
static char *show(const Log *log, const VialJournalLine *line)
{
	char time[VIAL_TIME_TEXT_SIZE];

	if (log->is_single)
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

static gboolean on_line(const VialJournalLine *line, gpointer data)
{
	Log *log = data;
	g_autofree char *shown = NULL;
	gsize size;
	json_t *json;

	if (log->form == FORM_JSON) {
		json_array_append_new(log->items, line_json(line));
		return FALSE;
	}
	shown = show(log, line);
	if (log->form == FORM_EVENTS) {
		json = line_json(line);
		json_object_set_new(json, "line", json_string(shown));
		return vial_request_sse_send(log->request, "log", json) > VIAL_BODY_HIGH_BYTES;
	}
	size = strlen(shown);
	shown[size] = '\n'; /* in place of the NUL: the bytes have a length of their own */
	return vial_request_stream_write(log->request, g_bytes_new_take(g_steal_pointer(&shown), size + 1)) > VIAL_BODY_HIGH_BYTES;
}

static void on_drained(VialRequest *request, gpointer data)
{
	Log *log = data;

	vial_logs_drained(log->logs);
}

static void on_begun(gpointer data)
{
	Log *log = data;

	if (log->form == FORM_EVENTS) {
		vial_request_sse_begin(log->request, on_drained, log);
	} else if (log->form == FORM_TEXT) {
		vial_request_set_header(log->request, "X-Content-Type-Options", "nosniff");
		vial_request_set_header(log->request, "Cache-Control", "no-store");
		vial_request_stream_begin(log->request, 200, "text/plain; charset=utf-8", -1, on_drained, log);
	}
}

static void on_end(gpointer data)
{
	Log *log = data;

	if (log->form == FORM_JSON)
		vial_request_reply_json(log->request, 200, json_incref(log->items));
	else
		vial_request_stream_end(log->request);
	log_free(log);
}

static void on_gone(VialRequest *request, gpointer data)
{
	Log *log = data;

	vial_logs_cancel(log->logs);
	log_free(log);
}

/* PandaStack's Python client says application/json whatever it asks for, and wants lines of text, or when it follows, events. */
static Form choose_form(VialRequest *request, gboolean does_follow)
{
	const char *accept = vial_request_header(request, "Accept");
	gboolean is_pandastack = vial_surface_is_pandastack(request);

	if (does_follow && is_pandastack)
		return accept && strstr(accept, "text/plain") ? FORM_TEXT : FORM_EVENTS;
	if (does_follow)
		return accept && strstr(accept, "text/event-stream") ? FORM_EVENTS : FORM_TEXT;
	return accept && strstr(accept, "application/json") && !is_pandastack ? FORM_JSON : FORM_TEXT;
}

void vial_api_logs(VialRequest *request)
{
	static const VialLogSink sink = { .begun = on_begun, .line = on_line, .end = on_end };
	VialCaller caller = vial_surface_caller(request);
	VialLogRequest wanted = { .stream = vial_request_query(request, "stream"), .limit = VIAL_UNSAID };
	Log *log = g_new0(Log, 1);
	GError *error = NULL;

	*log = (Log){ .request = vial_request_ref(request), .is_single = wanted.stream && strcmp(wanted.stream, "both") != 0 };
	if (vial_decode_query_bool(request, "follow", &wanted.follow, &error) && vial_decode_query_int(request, "limit", &wanted.limit, &error)) {
		log->form = choose_form(request, wanted.follow);
		log->items = log->form == FORM_JSON ? json_array() : NULL;
		log->logs = vial_op_logs(&caller, vial_surface_sandbox(request), &wanted, &sink, log, &error);
	}
	if (log->logs) {
		vial_request_on_gone(request, on_gone, log);
		return;
	}
	vial_request_reply_error(request, error);
	log_free(log);
}
