/* SPDX-License-Identifier: Apache-2.0 */
/* Between query.c, verify.c and export.c. */
#pragma once

#include "audit/audit_private.h"
#include "audit/query.h"

/* Once everything recorded so far is in the database (and under a head), or cannot get there. May be called at once. */
typedef void (*VialAuditReady)(const GError *error, gpointer data);
void vial_audit_wait(VialAudit *audit, gboolean is_signed, VialAuditReady ready, gpointer data);
/* TRUE: nothing is recorded, and `done` will say so. */
gboolean vial_audit_refuse_when_off(VialAudit *audit, VialAuditAnswer done, gpointer data);
/* In the query lane: its connection, opened when it is first wanted. */
VialAuditDb *vial_audit_reader(VialAudit *audit, GError **error);

/* A filter that owns its strings. */
VialAuditFilter *vial_audit_filter_copy(const VialAuditFilter *filter);
void vial_audit_filter_free(VialAuditFilter *filter);
/* A record as clients see it. */
json_t *vial_audit_record_json(const VialLedgerRecord *record);
