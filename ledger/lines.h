/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An export: lines of JSON that any program can read, and from which the exact bytes that were hashed can be taken.
 *
 *   {"vial_audit":1,"chain":"…","first":1,"previous":"…","public_key":"…"}      the first line; `previous` is hash(first - 1)
 *   {"record":{…},"body":{…},"hash":"…"}                                      the header as it was hashed; "body":null when it was removed
 *   {"seq":8,"record_sha256":"…","hash":"…"}                                  a record that is not for these eyes
 *   {"head":{…}}                                                              behind the record that it signs
 */
#pragma once

#include "ledger/head.h"

typedef struct {
	char chain[VIAL_LEDGER_CHAIN_MAX_BYTES + 1];
	gint64 first;
	VialLedgerHash previous;
	VialLedgerKey key;
} VialLedgerTitle;

typedef enum { VIAL_LEDGER_LINE_NONE, VIAL_LEDGER_LINE_TITLE, VIAL_LEDGER_LINE_RECORD, VIAL_LEDGER_LINE_HEAD } VialLedgerLineKind;

typedef struct {
	VialLedgerTitle title;
	VialLedgerRecord record; /* borrowed from the line */
	VialLedgerHead head;
} VialLedgerLine;

/* Each with its line end. */
void vial_ledger_write_title(GString *out, const VialLedgerTitle *title);
void vial_ledger_write_record(GString *out, const VialLedgerRecord *record);
void vial_ledger_write_head(GString *out, const VialLedgerHead *head);

/* What a line (without its end) is; VIAL_LEDGER_LINE_NONE when it is none of these. */
VialLedgerLineKind vial_ledger_read_line(const char *line, gsize size, VialLedgerLine *out);
