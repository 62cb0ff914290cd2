/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the audit. Each waits until everything that was recorded before it was asked is in the database, then is answered by a thread of its
 * own; `done` comes on the main loop, exactly once. Strings of questions are copied.
 */
#pragma once

#include "audit/audit.h"
#include "audit/filter.h"

/* `document` is borrowed; NULL with an error. */
typedef void (*VialAuditAnswer)(json_t *document, const GError *error, gpointer data);

/* {items: [record...], next: seq or null}, newest first. A record is its header's fields, `hash`, and `body` (null when it was removed). */
void vial_audit_find(VialAudit *audit, const VialAuditFilter *filter, VialAuditAnswer done, gpointer data);
/* NOT_FOUND when there is none, or it is another project's; `project` NULL: any. */
void vial_audit_get(VialAudit *audit, gint64 seq, const char *project, VialAuditAnswer done, gpointer data);
/* {public_key, former_keys: [...], chain, records, heads: [newest first]} */
void vial_audit_heads(VialAudit *audit, guint limit, VialAuditAnswer done, gpointer data);
/* A list; see usage.h. */
void vial_audit_usage(VialAudit *audit, const VialUsageQuestion *question, VialAuditAnswer done, gpointer data);
/* {ok, finding, seq?, until?, sentence, records, bodies, heads, signed_through, complaint?}: the whole chain, as long as that takes. */
void vial_audit_verify(VialAudit *audit, VialAuditAnswer done, gpointer data);

/* An export (ledger/lines.h), piece by piece: ask for the next when the last has been sent. What does not fit the filter is told by its hash alone.
 */
typedef struct VialAuditExport VialAuditExport;
VialAuditExport *vial_audit_export_new(VialAudit *audit, const VialAuditFilter *filter);
/* `bytes` (borrowed) is NULL at the end. The export may be freed from within. */
typedef void (*VialAuditPiece)(GBytes *bytes, const GError *error, gpointer data);
void vial_audit_export_next(VialAuditExport *export, VialAuditPiece done, gpointer data);
void vial_audit_export_free(VialAuditExport *export); /* at any time; accepts NULL */
