/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/check.h"

#include <string.h>

/* A record that waits for the one behind it, or is that one. */
typedef struct {
	gint64 seq;
	gboolean has_header, is_sound; /* the header's fixed places are there */
	gint64 header_seq;
	gboolean is_foreign; /* of another chain */
	VialLedgerHash header_hash, hash;
	gboolean has_body, body_fits;
} Kept;

struct VialLedgerCheck {
	char *chain;
	VialLedgerKey *keys;
	gsize n_keys;
	gint64 expected;
	VialLedgerHash last; /* hash(expected - 1) */
	gboolean is_waiting;
	Kept waiting;
	GHashTable *heads; /* seq -> VialLedgerHead, whose record has not come yet */
	gint64 newest_head;
	gint64 first_seq;
	VialLedgerVerdict verdict;
};

VialLedgerCheck *vial_ledger_check_new(const char *chain, gint64 first, const VialLedgerHash *previous, const VialLedgerKey *keys, gsize n_keys)
{
	VialLedgerCheck *check = g_new0(VialLedgerCheck, 1);

	check->chain = g_strdup(chain);
	check->expected = check->first_seq = previous ? first : 1;
	check->keys = g_memdup2(keys, n_keys * sizeof(*keys));
	check->n_keys = n_keys;
	if (previous)
		check->last = *previous;
	else
		vial_ledger_begin(chain, &check->last);
	check->heads = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
	return check;
}

void vial_ledger_check_free(VialLedgerCheck *check)
{
	if (!check)
		return;
	g_hash_table_unref(check->heads);
	g_free(check->keys);
	g_free(check->chain);
	g_free(check);
}

static gboolean found(VialLedgerCheck *check, VialLedgerFinding finding, gint64 seq, gint64 until)
{
	check->verdict.finding = finding;
	check->verdict.seq = seq;
	check->verdict.until = until;
	return FALSE;
}

/* Heads */

/* All fits up to here, or the whole part since the last good head is somebody else's. */
static gboolean judge_head(VialLedgerCheck *check, const VialLedgerHead *head)
{
	if (!vial_ledger_hash_equal(&head->hash, &check->last))
		return found(check, VIAL_LEDGER_REWRITTEN, MAX(check->verdict.signed_through + 1, check->first_seq), head->seq);
	if (check->n_keys > 0)
		check->verdict.signed_through = head->seq;
	return TRUE;
}

static gboolean keep_head(VialLedgerCheck *check, const VialLedgerHead *head)
{
	const VialLedgerHead *known = g_hash_table_lookup(check->heads, &head->seq);

	/* Two that are signed and differ: the one that does not fit will be told. */
	if (!known || vial_ledger_hash_equal(&known->hash, &head->hash))
		g_hash_table_replace(check->heads, g_memdup2(&head->seq, sizeof(head->seq)), g_memdup2(head, sizeof(*head)));
	check->newest_head = MAX(check->newest_head, head->seq);
	return TRUE;
}

static gboolean is_signed(const VialLedgerCheck *check, const VialLedgerHead *head)
{
	for (gsize i = 0; i < check->n_keys; i++)
		if (vial_ledger_head_is_signed(head, &check->keys[i]))
			return TRUE;
	return FALSE;
}

static gboolean settle(VialLedgerCheck *check);

gboolean vial_ledger_check_head(VialLedgerCheck *check, const VialLedgerHead *head)
{
	if (check->verdict.finding != VIAL_LEDGER_GOOD)
		return FALSE;
	if (check->n_keys > 0 && (strcmp(head->chain, check->chain) != 0 || !is_signed(check, head)))
		return found(check, VIAL_LEDGER_FORGED, head->seq, head->seq);
	check->verdict.heads += check->n_keys > 0;
	if (check->is_waiting && head->seq == check->waiting.seq && !settle(check))
		return FALSE;
	if (head->seq == check->expected - 1)
		return judge_head(check, head);
	/* Of one that has gone by only the chain after it speaks, which has been looked at. */
	return head->seq < check->expected || keep_head(check, head);
}

/* Records */

static void keep(const VialLedgerCheck *check, const VialLedgerRecord *record, Kept *out)
{
	char chain[VIAL_LEDGER_CHAIN_MAX_BYTES + 1];
	VialLedgerHash body, actual;

	*out = (Kept){ .seq = record->seq, .hash = record->hash, .header_seq = record->seq, .header_hash = record->header_hash, .body_fits = TRUE };
	if (!record->header)
		return;
	out->has_header = TRUE;
	vial_ledger_hash(record->header, record->header_size, &out->header_hash);
	out->is_sound = vial_ledger_header_read(record->header, record->header_size, &out->header_seq, chain, &body);
	out->is_foreign = out->is_sound && strcmp(chain, check->chain) != 0;
	if (!record->body)
		return;
	out->has_body = TRUE;
	vial_ledger_hash(record->body, record->body_size, &actual);
	out->body_fits = out->is_sound && vial_ledger_hash_equal(&body, &actual);
}

static gboolean leads_to(const VialLedgerHash *previous, const Kept *record)
{
	VialLedgerHash linked;

	vial_ledger_link(previous, &record->header_hash, &linked);
	return vial_ledger_hash_equal(&linked, &record->hash);
}

/* The numbers, where they stand and in the headers. `next` may be NULL. */
static gboolean judge_place(VialLedgerCheck *check, const Kept *record, const Kept *next)
{
	gint64 expected = check->expected;

	if (record->has_header && !record->is_sound) /* in an export it has no number then */
		return found(check, VIAL_LEDGER_CHANGED, expected, expected);
	if (record->seq < expected)
		return found(check, VIAL_LEDGER_INSERTED, record->seq, record->seq);
	if (record->seq > expected) {
		gboolean comes_later = next && next->seq < record->seq;

		return found(check, comes_later ? VIAL_LEDGER_REORDERED : VIAL_LEDGER_REMOVED, expected, record->seq - 1);
	}
	if (!record->has_header || record->header_seq == expected)
		return TRUE;
	/* What followed was numbered anew, the headers were not: is the rest shifted by a record that is gone, or are two exchanged? */
	if (record->header_seq > expected && (!next || next->header_seq == record->header_seq + 1))
		return found(check, VIAL_LEDGER_REMOVED, expected, record->header_seq - 1);
	return found(check, VIAL_LEDGER_REORDERED, expected, expected);
}

/* The record does not fit to the one before it. */
static gboolean judge_broken(VialLedgerCheck *check, const Kept *record, const Kept *next)
{
	gboolean is_inserted = record->is_foreign;

	/* Behind it comes what belongs in its place, whatever number it has now. */
	if (next && !leads_to(&record->hash, next))
		is_inserted |= (next->has_header && next->header_seq == record->seq && next->seq != record->seq) || leads_to(&check->last, next);
	return found(check, is_inserted ? VIAL_LEDGER_INSERTED : VIAL_LEDGER_CHANGED, record->seq, record->seq);
}

static gboolean judge(VialLedgerCheck *check, const Kept *record, const Kept *next)
{
	const VialLedgerHead *head;

	if (!judge_place(check, record, next))
		return FALSE;
	if (!leads_to(&check->last, record))
		return judge_broken(check, record, next);
	if (!record->body_fits)
		return found(check, VIAL_LEDGER_BODY_CHANGED, record->seq, record->seq);
	check->last = check->verdict.last = record->hash;
	check->expected++;
	check->verdict.records++;
	check->verdict.bodies += record->has_body;
	head = g_hash_table_lookup(check->heads, &record->seq);
	if (head && !judge_head(check, head))
		return FALSE;
	g_hash_table_remove(check->heads, &record->seq);
	return TRUE;
}

/* Nothing follows the one that waits, or we need not know what. */
static gboolean settle(VialLedgerCheck *check)
{
	if (!check->is_waiting)
		return TRUE;
	check->is_waiting = FALSE;
	return judge(check, &check->waiting, NULL);
}

gboolean vial_ledger_check_record(VialLedgerCheck *check, const VialLedgerRecord *record)
{
	Kept kept;

	if (check->verdict.finding != VIAL_LEDGER_GOOD)
		return FALSE;
	keep(check, record, &kept);
	if (check->is_waiting && !judge(check, &check->waiting, &kept))
		return FALSE;
	check->waiting = kept;
	check->is_waiting = TRUE;
	return TRUE;
}

gboolean vial_ledger_check_end(VialLedgerCheck *check)
{
	if (check->verdict.finding != VIAL_LEDGER_GOOD || !settle(check))
		return FALSE;
	if (check->newest_head >= check->expected)
		return found(check, VIAL_LEDGER_CUT, check->expected, check->newest_head);
	return TRUE;
}

/* What is said of it */

const VialLedgerVerdict *vial_ledger_check_verdict(const VialLedgerCheck *check)
{
	return &check->verdict;
}

const char *vial_ledger_finding_name(VialLedgerFinding finding)
{
	static const char *const names[] = {
		[VIAL_LEDGER_GOOD] = "good",           [VIAL_LEDGER_CHANGED] = "changed",   [VIAL_LEDGER_BODY_CHANGED] = "body_changed",
		[VIAL_LEDGER_REMOVED] = "removed",     [VIAL_LEDGER_INSERTED] = "inserted", [VIAL_LEDGER_REORDERED] = "reordered",
		[VIAL_LEDGER_REWRITTEN] = "rewritten", [VIAL_LEDGER_CUT] = "cut",           [VIAL_LEDGER_FORGED] = "forged",
	};

	return names[finding];
}

static char *range(const VialLedgerVerdict *verdict)
{
	if (verdict->until > verdict->seq)
		return g_strdup_printf("records %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, verdict->seq, verdict->until);
	return g_strdup_printf("record %" G_GINT64_FORMAT, verdict->seq);
}

static char *good_text(const VialLedgerVerdict *verdict)
{
	gint64 unsigned_records = verdict->records;

	if (verdict->records == 0)
		return g_strdup("there are no records");
	if (verdict->heads == 0)
		return g_strdup_printf("%" G_GINT64_FORMAT " records fit together; no signature was there to hold them against", unsigned_records);
	return g_strdup_printf("%" G_GINT64_FORMAT " records, %" G_GINT64_FORMAT
	                       " with their bodies: nothing was changed, removed, inserted or reordered; "
	                       "%" G_GINT64_FORMAT " signed heads hold, the last at record %" G_GINT64_FORMAT,
	                       verdict->records, verdict->bodies, verdict->heads, verdict->signed_through);
}

char *vial_ledger_verdict_text(const VialLedgerVerdict *verdict)
{
	g_autofree char *which = range(verdict);
	const char *plural = verdict->until > verdict->seq ? "were" : "was";

	switch (verdict->finding) {
	case VIAL_LEDGER_GOOD:
		return good_text(verdict);
	case VIAL_LEDGER_CHANGED:
		return g_strdup_printf("%s was changed", which);
	case VIAL_LEDGER_BODY_CHANGED:
		return g_strdup_printf("the body of %s was changed", which);
	case VIAL_LEDGER_REMOVED:
		return g_strdup_printf("%s %s removed", which, plural);
	case VIAL_LEDGER_INSERTED:
		return g_strdup_printf("%s was inserted: it was never written", which);
	case VIAL_LEDGER_REORDERED:
		return g_strdup_printf("from record %" G_GINT64_FORMAT " on the records were reordered", verdict->seq);
	case VIAL_LEDGER_REWRITTEN:
		return g_strdup_printf("%s %s written anew: they fit together, but are not what was signed", which, plural);
	case VIAL_LEDGER_CUT:
		return g_strdup_printf("the end was cut off: %s %s signed and %s missing", which, plural,
		                       verdict->until > verdict->seq ? "are" : "is");
	case VIAL_LEDGER_FORGED:
		return g_strdup_printf("the head at record %" G_GINT64_FORMAT " is not signed with this key", verdict->seq);
	}
	return NULL;
}
