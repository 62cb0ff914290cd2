/* SPDX-License-Identifier: Apache-2.0 */
/* The record: pages of it, single ones, an export as lines of JSON, and whether it is whole. */
#include "operations/audit.h"

#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"

static gboolean decode(VialRequest *request, VialAuditRequest *out, GError **error)
{
	*out = (VialAuditRequest){
		.project = vial_request_query(request, "project"),
		.from = vial_request_query(request, "from"),
		.to = vial_request_query(request, "to"),
		.principal = vial_request_query(request, "principal"),
		.agent = vial_request_query(request, "agent"),
		.session = vial_request_query(request, "session"),
		.sandbox = vial_request_query(request, "sandbox"),
		.action = vial_request_query(request, "action"),
		.trace_id = vial_request_query(request, "trace_id"),
		.text = vial_request_query(request, "text"),
		.cursor = VIAL_UNSAID,
		.limit = VIAL_UNSAID,
	};
	return vial_decode_query_int(request, "cursor", &out->cursor, error) && vial_decode_query_int(request, "limit", &out->limit, error);
}

void vial_api_audit_list(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialAuditRequest audit;

	vial_surface_begun(request, decode(request, &audit, &error) && vial_op_audit_list(&caller, &audit, vial_surface_reply_ok, request, &error),
	                   &error);
}

void vial_api_audit_get(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_audit_get(&caller, vial_request_param(request, "seq"), vial_surface_reply_ok, request, &error), &error);
}

void vial_api_audit_heads(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	gint64 limit = VIAL_UNSAID;

	vial_surface_begun(request,
	                   vial_decode_query_int(request, "limit", &limit, &error) &&
	                           vial_op_audit_heads(&caller, limit, vial_surface_reply_ok, request, &error),
	                   &error);
}

void vial_api_audit_verify(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_audit_verify(&caller, vial_surface_reply_ok, request, &error), &error);
}

/* Exports */

typedef struct {
	VialRequest *request;
	VialAuditStream *stream;
	gboolean is_begun;
} Export;

static void export_end(Export *export)
{
	vial_request_on_gone(export->request, NULL, NULL);
	vial_request_unref(export->request);
	g_free(export);
}

static void on_gone(VialRequest *request, gpointer data)
{
	Export *export = data;

	vial_audit_stream_cancel(export->stream);
	export_end(export);
}

static void on_drained(VialRequest *request, gpointer data)
{
	vial_audit_stream_drained(((Export *)data)->stream);
}

static void begin(Export *export)
{
	if (!export->is_begun)
		vial_request_ndjson_begin(export->request, NULL, on_drained, export); /* an export is its bytes, and nothing between them */
	export->is_begun = TRUE;
}

static gboolean on_piece(GBytes *bytes, gpointer data)
{
	Export *export = data;

	begin(export);
	return vial_request_stream_write(export->request, g_bytes_ref(bytes)) > VIAL_BODY_HIGH_BYTES;
}

static void on_end(const GError *error, gpointer data)
{
	Export *export = data;

	if (!error) {
		begin(export);
		vial_request_stream_end(export->request);
	} else if (export->is_begun) {
		vial_request_stream_abort(export->request);
	} else {
		vial_request_reply_error(export->request, g_error_copy(error));
	}
	export_end(export);
}

void vial_api_audit_export(VialRequest *request)
{
	static const VialAuditSink sink = { .piece = on_piece, .end = on_end };
	VialCaller caller = vial_surface_caller(request);
	VialAuditStream *stream = NULL;
	VialAuditRequest audit = { 0 };
	GError *error = NULL;
	Export *export = g_new0(Export, 1);

	export->request = vial_request_ref(request);
	if (decode(request, &audit, &error))
		stream = vial_op_audit_export(&caller, &audit, &sink, export, &error);
	if (!stream) {
		vial_request_reply_error(request, error);
		return export_end(export);
	}
	export->stream = stream;
	vial_request_on_gone(request, on_gone, export);
}
