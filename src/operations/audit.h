/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the record: searching it, exporting it, having it verified. A viewer sees his project's; an operator all, or one that he names. */
#pragma once

#include "audit/query.h"
#include "operations/operation.h"

/* Texts may be NULL, numbers VIAL_UNSAID. Times are RFC 3339. */
typedef struct {
	const char *project, *from, *to, *principal, *agent, *session, *sandbox, *action, *trace_id, *text;
	gint64 cursor;
	gint64 limit;
} VialAuditRequest;

gboolean vial_op_audit_list(const VialCaller *caller, const VialAuditRequest *request, VialDocumentDone done, gpointer data, GError **error);
gboolean vial_op_audit_get(const VialCaller *caller, const char *seq, VialDocumentDone done, gpointer data, GError **error);
gboolean vial_op_audit_heads(const VialCaller *caller, gint64 limit, VialDocumentDone done, gpointer data, GError **error);
gboolean vial_op_audit_verify(const VialCaller *caller, VialDocumentDone done, gpointer data, GError **error);

typedef struct VialAuditStream VialAuditStream;
typedef struct {
	/* TRUE: enough, until vial_audit_stream_drained(). */
	gboolean (*piece)(GBytes *bytes, gpointer data);
	void (*end)(const GError *error, gpointer data);
} VialAuditSink;
/* The first piece comes after this has returned. */
VialAuditStream *vial_op_audit_export(const VialCaller *caller, const VialAuditRequest *request, const VialAuditSink *sink, gpointer data,
                                      GError **error);
void vial_audit_stream_drained(VialAuditStream *stream);
void vial_audit_stream_cancel(VialAuditStream *stream); /* nothing comes any more; accepts NULL */
