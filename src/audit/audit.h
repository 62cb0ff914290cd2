/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of what was done. An *entry* is begun before an operation begins: a note of it is on the disk then. It is ended, before whoever asked is
 * told, by a *record*, one link of the chain (ledger/ledger.h). If viald dies in between, the next one finds the note and records that the operation
 * was interrupted.
 *
 * How it is kept: append to the spool (spool.h) in the main thread, which is what is waited for; from there into the database by a thread of its own
 * (writer.h), where it is searched (query.h), signed, and in time forgotten but for its hashes. Main thread only.
 *
 * With the setting audit_sync an answer also waits until the spool is flushed to the disk: vial_audit_uncommitted() is for whoever holds answers
 * back.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "audit/usage.h"
#include "ledger/head.h"
#include "store/store.h"
#include "util/config.h"

typedef struct VialAudit VialAudit;
typedef struct VialAuditEntry VialAuditEntry;

/*
 * Opens or makes it, takes over what the last viald left in the spool and what older versions kept of calls (`calls`, may be NULL or empty). Blocks;
 * at start. An audit that is switched off (setting `audit`) records nothing, and everything else works.
 */
VialAudit *vial_audit_open(const VialConfig *config, const GPtrArray *calls, GError **error);
/*
 * The end is near: what looks through the whole record stops, and whoever waits for the database is answered with what is there. While there still
 * are worker threads. Both accept NULL.
 */
void vial_audit_leave(VialAudit *audit);
void vial_audit_close(VialAudit *audit);

gboolean vial_audit_is_on(const VialAudit *audit);
/* Without room for records nothing more may be done: FALSE with NO_SPACE or UNAVAILABLE. */
gboolean vial_audit_check_room(VialAudit *audit, GError **error);
/* Something is wrong with what was found at the start, in a sentence; NULL: not that we know. */
const char *vial_audit_complaint(const VialAudit *audit);

/*
 * `header` and `body` (taken over, objects) say what is known by now: action, project, principal, ... FALSE with an error when it cannot be recorded,
 * and must not be done. `more_bytes` is how much may come into the body until its end. What is urgent (it stops
 * something, or frees room) has some room left when there is none for others.
 */
VialAuditEntry *vial_audit_begin(VialAudit *audit, json_t *header, json_t *body, gsize more_bytes, gboolean is_urgent, GError **error);
/* 20 characters, different for each: the operation's own id. */
const char *vial_audit_entry_id(const VialAuditEntry *entry);
json_t *vial_audit_entry_header(VialAuditEntry *entry);
json_t *vial_audit_entry_body(VialAuditEntry *entry);
/* Writes the record and frees the entry. FALSE: it could not be written, so nobody must be told that it was done. */
gboolean vial_audit_end(VialAudit *audit, VialAuditEntry *entry, GError **error);
/* A record of something that is over or was refused: without a note. */
gboolean vial_audit_add(VialAudit *audit, json_t *header, json_t *body, gboolean is_urgent, GError **error);

/* A text without secrets; NULL: it has none. Records are freed of them as they are written: this is for what is cut before, where one might be cut in
 * two. */
char *vial_audit_redact(const VialAudit *audit, const char *text, gsize size);

/* The number of the last record that is not yet flushed to the disk, where that is waited for; else 0. */
guint64 vial_audit_uncommitted(const VialAudit *audit);
typedef void (*VialAuditCommitted)(guint64 seq, gboolean has_failed, gpointer data);
void vial_audit_on_committed(VialAudit *audit, VialAuditCommitted committed, gpointer data);

/* Projects whose bodies are kept (legal hold): an array of names, taken over. */
void vial_audit_hold(VialAudit *audit, json_t *projects);
/* Taken over. */
void vial_audit_charge(VialAudit *audit, VialCharges *charges);
/* Until when sandboxes were charged when the last viald ended; borrowed, gone after the start. */
GHashTable *vial_audit_meters(VialAudit *audit);

typedef struct {
	gint64 records;     /* the last record's number */
	gint64 in_database; /* of these */
	gint64 signed_through;
	guint open;          /* operations under way */
	gboolean is_failing; /* records cannot be written to the database */
} VialAuditStats;
void vial_audit_stats(const VialAudit *audit, VialAuditStats *out);
