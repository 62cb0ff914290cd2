/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a history is what was written. Give what there is of heads from other places first, then the records in their order (and heads among them,
 * each behind its record), then ask for the end. The first thing that is wrong ends it: it is named, with the number of the record it was found at.
 *
 * One record is kept back to be judged beside the one that follows: only so can a record that was changed be told from one that was put in between.
 */
#pragma once

#include "ledger/head.h"

typedef enum {
	VIAL_LEDGER_GOOD,
	VIAL_LEDGER_CHANGED,      /* the header is not what was hashed */
	VIAL_LEDGER_BODY_CHANGED, /* the body is not what the header says */
	VIAL_LEDGER_REMOVED,      /* the record of this number is missing */
	VIAL_LEDGER_INSERTED,     /* a record that was never written */
	VIAL_LEDGER_REORDERED,    /* another record stands here */
	VIAL_LEDGER_REWRITTEN,    /* all fits, but does not lead to what was signed: written anew without the key */
	VIAL_LEDGER_CUT,          /* the end is missing: more was signed than there is */
	VIAL_LEDGER_FORGED,       /* a head that nobody with the key has signed */
} VialLedgerFinding;

typedef struct {
	VialLedgerFinding finding;
	gint64 seq;            /* the first record that is wrong */
	gint64 until;          /* of what was removed, rewritten or cut: the last one */
	gint64 records;        /* looked at, this one not included */
	gint64 bodies;         /* of these: with a body that fits */
	gint64 heads;          /* signatures that hold */
	gint64 signed_through; /* nobody without the key can have written another history up to here; 0: nothing is signed */
	VialLedgerHash last;   /* hash of the last record that was looked at */
} VialLedgerVerdict;

typedef struct VialLedgerCheck VialLedgerCheck;

/*
 * From `first` on, `previous` being hash(first - 1); NULL: from the beginning of the chain. A head must be signed with one of the keys (the key may
 * have been exchanged one day); without any, heads are not judged.
 */
VialLedgerCheck *vial_ledger_check_new(const char *chain, gint64 first, const VialLedgerHash *previous, const VialLedgerKey *keys, gsize n_keys);
void vial_ledger_check_free(VialLedgerCheck *check); /* accepts NULL */

/* Each FALSE when something is wrong; more is not looked at then. What is given is copied. */
gboolean vial_ledger_check_head(VialLedgerCheck *check, const VialLedgerHead *head);
gboolean vial_ledger_check_record(VialLedgerCheck *check, const VialLedgerRecord *record);
gboolean vial_ledger_check_end(VialLedgerCheck *check);

const VialLedgerVerdict *vial_ledger_check_verdict(const VialLedgerCheck *check);
const char *vial_ledger_finding_name(VialLedgerFinding finding); /* good, changed, body_changed, … */
/* A sentence for people; free it. */
char *vial_ledger_verdict_text(const VialLedgerVerdict *verdict);
