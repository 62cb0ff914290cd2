/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit's database, <data_dir>/audit.sqlite: records, signed heads, the words of the code, and what was used. Plain synchronous operations on one
 * connection, used by one thread at a time: the writer has one, whoever asks another.
 *
 * What is searched by are columns that SQLite makes out of the header itself, so they cannot say anything else than what was hashed.
 */
#pragma once

#include <glib.h>
#include <jansson.h>
#include <sqlite3.h>

#include "audit/filter.h"
#include "ledger/head.h"

typedef struct VialAuditDb VialAuditDb;

/* Makes it or brings its schema up to date; `is_reader`: neither, and nothing can be written. */
VialAuditDb *vial_audit_db_open(const char *path, gboolean is_reader, GError **error);
void vial_audit_db_close(VialAuditDb *db); /* accepts NULL */

/* What there is. `chain` is made when there is none yet. */
typedef struct {
	char chain[VIAL_LEDGER_CHAIN_MAX_BYTES + 1];
	gint64 last_seq; /* 0: none */
	VialLedgerHash last;
	char *last_time; /* of that record, NULL: none */
} VialAuditState;
gboolean vial_audit_db_state(VialAuditDb *db, VialAuditState *out, GError **error);

/* Writing: between begin and commit, which waits for the disk. */
gboolean vial_audit_db_begin(VialAuditDb *db, GError **error);
gboolean vial_audit_db_commit(VialAuditDb *db, GError **error);
void vial_audit_db_rollback(VialAuditDb *db);
/* One that is there already is left as it is: after a crash the spool gives again what it gave. *out_is_new says which. */
gboolean vial_audit_db_add(VialAuditDb *db, const VialLedgerRecord *record, gboolean *out_is_new, GError **error);
gboolean vial_audit_db_add_head(VialAuditDb *db, const VialLedgerHead *head, GError **error);
/* The last record of the transaction, signed: what is in the database is known to be ours, up to its last record, also between heads. */
gboolean vial_audit_db_set_tip(VialAuditDb *db, const VialLedgerHead *tip, GError **error);
/*
 * Removes the bodies of at most `limit` records that are older than `before`, oldest first, but not of these projects (an array of strings). *from is
 * where it begins and where it went to (NULL: at the oldest), so that those that are held are not looked at for each batch.
 */
gboolean vial_audit_db_forget_bodies(VialAuditDb *db, char **from, const char *before, const json_t *held_projects, guint limit, guint *out_forgotten,
                                     GError **error);
/*
 * What was removed is still in the index of words, marked as such, until its parts are put together: some of that, between begin and commit.
 * `is_first` begins it. Then the log of the database: no transaction may be open.
 */
gboolean vial_audit_db_merge_words(VialAuditDb *db, gboolean is_first, gboolean *out_is_over, GError **error);
gboolean vial_audit_db_checkpoint(VialAuditDb *db, GError **error);

/* Reading. A record's texts are valid until the next call. */
typedef gboolean (*VialAuditEach)(const VialLedgerRecord *record, gpointer data); /* FALSE: enough */
/* Newest first; search.c. */
gboolean vial_audit_db_find(VialAuditDb *db, const VialAuditFilter *filter, VialAuditEach each, gpointer data, GError **error);
/* The rows of a statement (seq, hash, header, body), which is taken over. */
gboolean vial_audit_db_rows(VialAuditDb *db, sqlite3_stmt *statement, VialAuditEach each, gpointer data, GError **error);
/* From `seq` on, in their order; at most `limit`. */
gboolean vial_audit_db_walk(VialAuditDb *db, gint64 seq, guint limit, VialAuditEach each, gpointer data, GError **error);
/* Heads at or behind `seq`, in their order, at most `limit`. */
GArray *vial_audit_db_heads(VialAuditDb *db, gint64 seq, guint limit, GError **error);
GArray *vial_audit_db_last_heads(VialAuditDb *db, guint limit, GError **error); /* newest first */

gboolean vial_audit_db_tip(VialAuditDb *db, VialLedgerHead *out, GError **error); /* seq 0: there is none */

/* What was found wrong one day: the record of it is of this action. The newest one's sentence; NULL: none. */
#define VIAL_AUDIT_TAMPERED "audit.tampered"
gboolean vial_audit_db_last_complaint(VialAuditDb *db, char **out, GError **error);

/* What was used: usage.c. */
sqlite3 *vial_audit_db_handle(VialAuditDb *db);
gboolean vial_audit_db_fail(VialAuditDb *db, const char *what, GError **error);
