/* SPDX-License-Identifier: Apache-2.0 */
/* Between audit.c (entries and the chain), recover.c (the start), signer.c and query.c. */
#pragma once

#include "audit/audit.h"
#include "audit/redact.h"
#include "audit/spool.h"
#include "audit/sync.h"
#include "audit/writer.h"
#include "util/time.h"

/* Up to which record and which charges a segment of the spool goes. */
typedef struct {
	guint number;
	gint64 last_seq, last_charge;
} VialAuditSegment;

struct VialAudit {
	const VialConfig *config;
	gboolean is_on;
	char *database;
	VialLedgerSigner *signer;
	GArray *keys; /* VialLedgerKey: ours, and those we had */
	VialRedactor *redactor;
	VialPlaces *places;
	VialSpool *spool;
	VialAuditSync *sync; /* NULL: the disk is not waited for */
	guint sync_segment;  /* whose descriptor it has; 0: none */
	VialAuditWriter *writer;

	char chain[VIAL_LEDGER_CHAIN_MAX_BYTES + 1];
	gint64 seq; /* of the last record */
	VialLedgerHash last;
	gint64 last_time_ms;
	gint64 in_database, signed_through, synced;
	gint64 charge, charge_in_database; /* numbers */
	GArray *segments;                  /* VialAuditSegment, oldest first; the last is the current one */
	GHashTable *open;                  /* id -> VialAuditEntry */
	GError *failure;                   /* why records do not get into the database */
	gint64 failing_since_ms;           /* monotonic; 0: nothing more is to be done at all */
	char *complaint;
	guint checking;      /* an idle source: the look through all of it, after the start */
	gboolean is_leaving; /* whoever looks through all of it stops */
	GHashTable *meters;
	GQueue waiters; /* for what is to be in the database: query.c */
	VialAuditCommitted committed;
	gpointer committed_data;

	VialAuditDb *reader; /* the query lane's alone */
};

struct VialAuditEntry {
	char id[21];
	char began[VIAL_TIME_TEXT_SIZE];
	json_t *header, *body;
	gboolean is_urgent;
	gsize reserved; /* for its end */
	guint segment;  /* where its note is */
};

/* A record out of a header's and a body's fields: the next of the chain, not yet written anywhere. */
void vial_audit_make_record(VialAudit *audit, json_t *header, json_t *body, VialAuditItem *out);
/* Into the spool and to the writer; the item is taken over. */
gboolean vial_audit_append(VialAudit *audit, VialAuditItem *item, GError **error);
/* As the spool has it, and back (texts are copied); FALSE when it is none. */
GByteArray *vial_audit_item_pack(const VialAuditItem *item);
gboolean vial_audit_item_unpack(const char *bytes, gsize size, VialAuditItem *out);
void vial_audit_item_clear(VialAuditItem *item);

/* The signing key, made if there is none, and the public ones beside it. */
gboolean vial_audit_open_signer(VialAudit *audit, GError **error);
/* What is in the database and in the spool; starts the writer. */
gboolean vial_audit_recover(VialAudit *audit, const GPtrArray *calls, GError **error);

/* The writer has word. */
void vial_audit_on_written(const VialAuditWritten *written, const GError *error, gpointer audit);
/* Those who wait for the database are told; query.c. */
void vial_audit_settle_waiters(VialAudit *audit, const GError *error);
void vial_audit_drop_waiters(VialAudit *audit);
