/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that moves records from the spool's memory into the database, signs heads, and forgets old bodies. Nobody waits for it but those who ask
 * questions and the spool, which keeps what is not in the database yet. When the database cannot be written (a full disk), it tries again every
 * second.
 *
 * Records gather for a while: a transaction waits for the disk, and one for many costs as much as one for one.
 */
#pragma once

#include "audit/db.h"
#include "audit/places.h"
#include "audit/usage.h"
#include "ledger/ledger.h"

/* A record on its way. */
typedef struct {
	gint64 seq;
	VialLedgerHash hash;
	char *header, *body;
	gsize header_size, body_size;
} VialAuditItem;

typedef struct {
	gint64 seq;        /* records up to this one */
	gint64 signed_seq; /* of these, under a head */
	gint64 charge;     /* charges up to this number */
	gboolean forgot;   /* old bodies were removed, which others may still have */
} VialAuditWritten;

typedef struct {
	VialAuditDb *db;          /* taken over */
	VialLedgerSigner *signer; /* borrowed */
	VialPlaces *places;       /* borrowed */
	const char *chain;
	gint64 unsigned_records; /* behind the last head, in the database already */
	gint64 last_seq;         /* in the database, and its hash */
	VialLedgerHash last;
	gint64 head_records, head_seconds;
	gint64 retention_days; /* 0: for ever */
	/* On the main loop: what is in the database and on the disk now, or why nothing more gets there. */
	void (*committed)(const VialAuditWritten *written, const GError *error, gpointer data);
	gpointer data;
} VialAuditWriterSpec;

typedef struct VialAuditWriter VialAuditWriter;

VialAuditWriter *vial_audit_writer_new(const VialAuditWriterSpec *spec);
/* Writes what there is, signs it, and ends. `committed` is not called any more. */
void vial_audit_writer_free(VialAuditWriter *writer);

/* Takes the item's texts over. Main thread. */
void vial_audit_writer_push(VialAuditWriter *writer, VialAuditItem *item);
/* What sandboxes have used, in one transaction; taken over. */
void vial_audit_writer_charge(VialAuditWriter *writer, VialCharges *charges);
/* Somebody waits: what there is goes now. */
void vial_audit_writer_hurry(VialAuditWriter *writer);
/* A head for the last record, as soon as it is in the database. */
void vial_audit_writer_sign(VialAuditWriter *writer);
/* Projects whose bodies are kept whatever their age; an array of names, a new one. */
void vial_audit_writer_hold(VialAuditWriter *writer, json_t *projects);
