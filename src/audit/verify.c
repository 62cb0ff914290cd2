/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole chain, from its first record: in turns, so that others who ask have theirs in between. It is held against the heads of the database,
 * those of the file beside it, and against what viald itself remembers of its last record.
 */
#include <string.h>

#include "audit/query_private.h"
#include "ledger/check.h"
#include "util/error.h"
#include "util/json.h"
#include "util/worker.h"

/* Some ten milliseconds: so long others who ask wait. */
#define RECORDS_PER_TURN 2000
#define ALL_HEADS G_MAXINT32

typedef struct {
	VialAudit *audit;
	VialLedgerCheck *check;
	gint64 next;
	gint64 through; /* the last record there was when it was asked, and its hash */
	VialLedgerHash last;
	gboolean knows_last;
	gboolean is_over;
	guint walked;   /* in this turn */
	gint64 surplus; /* a record that is newer than any that was written */
	GError *error;
	VialAuditAnswer done;
	gpointer data;
} Verification;

static gboolean on_record(const VialLedgerRecord *record, gpointer data)
{
	Verification *verification = data;

	if (record->seq > verification->through)
		return FALSE;
	verification->walked++;
	verification->next = record->seq + 1;
	return vial_ledger_check_record(verification->check, record);
}

static gboolean give_heads(Verification *verification, VialAuditDb *db)
{
	g_autoptr(GArray) kept = vial_audit_db_heads(db, 1, ALL_HEADS, &verification->error);
	g_autoptr(GArray) outside = vial_places_read(verification->audit->config->data_dir);
	g_autoptr(GHashTable) seen = g_hash_table_new(g_int64_hash, g_int64_equal);
	gboolean is_good = kept != NULL;

	for (guint i = 0; is_good && i < kept->len; i++) {
		VialLedgerHead *head = &g_array_index(kept, VialLedgerHead, i);

		is_good = head->seq > verification->through || vial_ledger_check_head(verification->check, head);
		g_hash_table_insert(seen, &head->seq, head);
	}
	/* Most are the same, and a signature takes longer than a hundred records. */
	for (guint i = 0; is_good && i < outside->len; i++) {
		VialLedgerHead *head = &g_array_index(outside, VialLedgerHead, i);
		const VialLedgerHead *same = g_hash_table_lookup(seen, &head->seq);

		/* Of another chain: the database was replaced, which the start has seen (recover.c). */
		if (strcmp(head->chain, verification->audit->chain) == 0 && head->seq <= verification->through &&
		    (!same || !vial_ledger_hash_equal(&same->hash, &head->hash)))
			is_good = vial_ledger_check_head(verification->check, head);
	}
	return is_good;
}

typedef struct {
	gint64 seq;
} Newest;

static gboolean on_newer(const VialLedgerRecord *record, gpointer data)
{
	((Newest *)data)->seq = record->seq;
	return FALSE;
}

static void turn(gpointer data)
{
	Verification *verification = data;
	VialAudit *audit = verification->audit;
	VialAuditDb *db = vial_audit_reader(audit, &verification->error);

	if (db && !verification->check) {
		verification->check =
			vial_ledger_check_new(audit->chain, 1, NULL, (const VialLedgerKey *)(gpointer)audit->keys->data, audit->keys->len);
		verification->is_over = !give_heads(verification, db);
	}
	verification->walked = 0;
	if (db && !verification->is_over)
		vial_audit_db_walk(db, verification->next, RECORDS_PER_TURN, on_record, verification, &verification->error);
	verification->is_over |= verification->walked < RECORDS_PER_TURN || verification->error ||
	                         vial_ledger_check_verdict(verification->check)->finding != VIAL_LEDGER_GOOD;
	if (db && verification->is_over && !verification->error) {
		Newest newest = { 0 };

		vial_ledger_check_end(verification->check);
		vial_audit_db_walk(db, verification->through + 1, 1, on_newer, &newest, NULL);
		verification->surplus = newest.seq;
	}
}

/* What the records themselves cannot tell: whether the last of them is the last that we wrote. */
static void judge_end(const Verification *verification, VialLedgerVerdict *verdict)
{
	const VialAudit *audit = verification->audit;

	if (verdict->finding != VIAL_LEDGER_GOOD)
		return;
	if (verification->next <= verification->through)
		*verdict = (VialLedgerVerdict){ .finding = VIAL_LEDGER_CUT,
			                        .seq = verification->next,
			                        .until = verification->through,
			                        .records = verdict->records,
			                        .signed_through = verdict->signed_through };
	else if (verification->knows_last && verification->through > 0 && !vial_ledger_hash_equal(&verdict->last, &verification->last)) {
		verdict->finding = VIAL_LEDGER_REWRITTEN;
		verdict->seq = verdict->signed_through + 1;
		verdict->until = verification->through;
	} else if (verification->surplus > audit->seq) {
		verdict->finding = VIAL_LEDGER_INSERTED;
		verdict->seq = verdict->until = verification->surplus;
	}
}

static json_t *verdict_json(const VialAudit *audit, const VialLedgerVerdict *verdict)
{
	g_autofree char *sentence = vial_ledger_verdict_text(verdict);
	gboolean is_good = verdict->finding == VIAL_LEDGER_GOOD;
	json_t *json = json_pack("{s:b, s:s, s:s, s:I, s:I, s:I, s:I, s:s*}", "ok", is_good && !audit->complaint, "finding",
	                         vial_ledger_finding_name(verdict->finding), "sentence", sentence, "records", (json_int_t)verdict->records, "bodies",
	                         (json_int_t)verdict->bodies, "heads", (json_int_t)verdict->heads, "signed_through",
	                         (json_int_t)verdict->signed_through, "complaint", audit->complaint);

	if (!is_good) {
		json_object_set_new(json, "seq", json_integer(verdict->seq));
		json_object_set_new(json, "until", json_integer(verdict->until));
	}
	return json;
}

static void turn_done(gpointer data)
{
	Verification *verification = data;
	g_autoptr(json_t) document = NULL;
	VialLedgerVerdict verdict;

	if (!verification->is_over && verification->audit->is_leaving)
		vial_fail(&verification->error, VIAL_ERROR_UNAVAILABLE, "this Vial is shutting down");
	else if (!verification->is_over)
		return vial_worker_run_in(VIAL_LANE_QUERY, turn, turn_done, verification);
	if (!verification->error) {
		verdict = *vial_ledger_check_verdict(verification->check);
		judge_end(verification, &verdict);
		document = verdict_json(verification->audit, &verdict);
	}
	verification->done(document, verification->error, verification->data);
	vial_ledger_check_free(verification->check);
	g_clear_error(&verification->error);
	g_free(verification);
}

static void on_ready(const GError *error, gpointer data)
{
	Verification *verification = data;

	/* What could not be written yet cannot be there; the rest can be looked at all the same. */
	if (error) {
		verification->through = verification->audit->in_database;
		verification->knows_last = FALSE;
	}
	vial_worker_run_in(VIAL_LANE_QUERY, turn, turn_done, verification);
}

void vial_audit_verify(VialAudit *audit, VialAuditAnswer done, gpointer data)
{
	Verification *verification;

	if (vial_audit_refuse_when_off(audit, done, data))
		return;
	verification = g_new0(Verification, 1);
	*verification = (Verification){
		.audit = audit, .next = 1, .through = audit->seq, .last = audit->last, .knows_last = TRUE, .done = done, .data = data
	};
	vial_audit_wait(audit, TRUE, on_ready, verification);
}
