/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/audit.h"

#include <string.h>

#include "operations/entry.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/app.h"
#include "util/time.h"

#define DEFAULT_LIMIT 50
#define HEADS_DEFAULT 20

/* A filter whose times are as headers have them. */
typedef struct {
	VialAuditFilter filter;
	char from[VIAL_TIME_TEXT_SIZE], to[VIAL_TIME_TEXT_SIZE];
} Question;

static gboolean read_time(const char *field, const char *text, char out[VIAL_TIME_TEXT_SIZE], const char **filter, GError **error)
{
	gint64 time_ms;

	if (!text)
		return TRUE;
	if (!vial_time_parse(text, &time_ms))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be a time as 2026-01-31T12:00:00Z", field);
	vial_time_fill(out, time_ms);
	*filter = out;
	return TRUE;
}

static gboolean check_texts(const VialAuditRequest *request, GError **error)
{
	const struct {
		const char *field, *text;
	} texts[] = {
		{ "principal", request->principal }, { "agent", request->agent }, { "session", request->session },   { "sandbox", request->sandbox },
		{ "action", request->action },       { "text", request->text },   { "trace_id", request->trace_id },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
		if (!vial_check_text(texts[i].field, texts[i].text, VIAL_AUDIT_TEXT_MAX_BYTES, error))
			return FALSE;
	return TRUE;
}

static gboolean read_request(const VialCaller *caller, VialVerb verb, const VialAuditRequest *request, Question *out, GError **error)
{
	gboolean is_operator = vial_identity_is_operator(caller->principal);

	*out = (Question){ .filter = { .principal = request->principal,
		                       .agent = request->agent,
		                       .session = request->session,
		                       .sandbox = request->sandbox,
		                       .action = request->action,
		                       .trace_id = request->trace_id,
		                       .text = request->text,
		                       .before = request->cursor == VIAL_UNSAID ? 0 : request->cursor,
		                       .limit = request->limit == VIAL_UNSAID ? DEFAULT_LIMIT : (guint)request->limit } };
	/* An operator who names none sees all, those of projects that are gone too. */
	if (is_operator)
		out->filter.project = g_strcmp0(request->project, "*") == 0 ? NULL : request->project;
	else if (!(out->filter.project = vial_operation_project(caller, verb, request->project, error)))
		return FALSE;
	return check_texts(request, error) && vial_check_int("limit", request->limit, 1, VIAL_PAGE_MAX, error) &&
	       vial_check_int("cursor", request->cursor, 1, G_MAXINT64, error) &&
	       read_time("from", request->from, out->from, &out->filter.from, error) && read_time("to", request->to, out->to, &out->filter.to, error);
}

gboolean vial_op_audit_list(const VialCaller *caller, const VialAuditRequest *request, VialDocumentDone done, gpointer data, GError **error)
{
	Question question;

	if (!vial_operation_admit(caller, VIAL_VERB_AUDIT_READ, NULL, 0, NULL, error) ||
	    !read_request(caller, VIAL_VERB_AUDIT_READ, request, &question, error))
		return FALSE;
	vial_audit_find(caller->app->audit, &question.filter, done, data);
	return TRUE;
}

gboolean vial_op_audit_get(const VialCaller *caller, const char *text, VialDocumentDone done, gpointer data, GError **error)
{
	gint64 seq;

	if (!vial_operation_admit(caller, VIAL_VERB_AUDIT_READ, NULL, 0, NULL, error))
		return FALSE;
	if (!g_ascii_string_to_signed(text, 10, 1, G_MAXINT64, &seq, NULL))
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no record %.20s", text);
	vial_audit_get(caller->app->audit, seq, vial_identity_is_operator(caller->principal) ? NULL : caller->principal->project, done, data);
	return TRUE;
}

gboolean vial_op_audit_heads(const VialCaller *caller, gint64 limit, VialDocumentDone done, gpointer data, GError **error)
{
	if (!vial_operation_admit(caller, VIAL_VERB_AUDIT_READ, NULL, 0, NULL, error) || !vial_check_int("limit", limit, 1, VIAL_PAGE_MAX, error))
		return FALSE;
	vial_audit_heads(caller->app->audit, limit == VIAL_UNSAID ? HEADS_DEFAULT : (guint)limit, done, data);
	return TRUE;
}

gboolean vial_op_audit_verify(const VialCaller *caller, VialDocumentDone done, gpointer data, GError **error)
{
	if (!vial_operation_admit(caller, VIAL_VERB_AUDIT_VERIFY, NULL, 0, NULL, error))
		return FALSE;
	vial_audit_verify(caller->app->audit, done, data);
	return TRUE;
}

/* Exporting */

struct VialAuditStream {
	VialAuditExport *export;
	VialEntry *entry;
	const VialAuditSink *sink;
	gpointer data;
	guint64 bytes;
	guint start; /* an idle source */
};

static void stream_free(VialAuditStream *stream)
{
	g_clear_handle_id(&stream->start, g_source_remove);
	vial_audit_export_free(stream->export);
	g_free(stream);
}

static void on_piece(GBytes *bytes, const GError *error, gpointer data)
{
	VialAuditStream *stream = data;
	g_autoptr(GError) unrecorded = NULL;

	if (bytes) {
		stream->bytes += g_bytes_get_size(bytes);
		if (!stream->sink->piece(bytes, stream->data))
			vial_audit_stream_drained(stream);
		return;
	}
	vial_entry_count(stream->entry, 0, stream->bytes);
	error = vial_entry_settle(stream->entry, error, &unrecorded);
	stream->sink->end(error, stream->data);
	stream_free(stream);
}

void vial_audit_stream_drained(VialAuditStream *stream)
{
	vial_audit_export_next(stream->export, on_piece, stream);
}

void vial_audit_stream_cancel(VialAuditStream *stream)
{
	if (!stream)
		return;
	vial_entry_end(stream->entry, "cancelled", NULL, NULL);
	stream_free(stream);
}

static gboolean on_start(gpointer data)
{
	VialAuditStream *stream = data;

	stream->start = 0;
	vial_audit_stream_drained(stream);
	return G_SOURCE_REMOVE;
}

VialAuditStream *vial_op_audit_export(const VialCaller *caller, const VialAuditRequest *request, const VialAuditSink *sink, gpointer data,
                                      GError **error)
{
	const char *wrong = request->text ? "text" : request->cursor != VIAL_UNSAID ? "cursor" : request->limit != VIAL_UNSAID ? "limit" : NULL;
	VialAuditStream *stream;
	Question question;
	VialEntry *entry;

	if (!vial_operation_admit(caller, VIAL_VERB_AUDIT_EXPORT, NULL, 0, NULL, error) ||
	    !read_request(caller, VIAL_VERB_AUDIT_EXPORT, request, &question, error))
		return NULL;
	if (wrong) {
		vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" is not for exports, which are a stretch of the record without gaps", wrong);
		return NULL;
	}
	/* Its own record comes behind what it exports. */
	entry = vial_entry_begin(
		caller, VIAL_VERB_AUDIT_EXPORT, NULL,
		json_pack("{s:s*, s:s*, s:s*}", "project", question.filter.project, "from", question.filter.from, "to", question.filter.to), error);
	if (!entry)
		return NULL;
	stream = g_new0(VialAuditStream, 1);
	*stream = (VialAuditStream){
		.export = vial_audit_export_new(caller->app->audit, &question.filter), .entry = entry, .sink = sink, .data = data
	};
	stream->start = g_idle_add(on_start, stream);
	return stream;
}
