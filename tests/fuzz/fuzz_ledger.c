/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: an export of the audit from somebody who is not trusted, as `vial audit verify` reads it. Lines are read out of memory that ends where
 * they end; what is read and written again is the same to whoever reads it then; and whatever comes, the check names at most one thing, and sticks to
 * it.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/check.h"
#include "ledger/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void write_line(VialLedgerLineKind kind, const VialLedgerLine *line, GString *out)
{
	if (kind == VIAL_LEDGER_LINE_TITLE)
		vial_ledger_write_title(out, &line->title);
	else if (kind == VIAL_LEDGER_LINE_RECORD)
		vial_ledger_write_record(out, &line->record);
	else if (kind == VIAL_LEDGER_LINE_HEAD)
		vial_ledger_write_head(out, &line->head);
}

/* Written once it has our form, and then no longer changes. A title's and a head's texts are JSON, whose escapes are not written again as they were.
 */
static void check_form(VialLedgerLineKind kind, const VialLedgerLine *line)
{
	g_autoptr(GString) once = g_string_new(NULL), twice = g_string_new(NULL);
	VialLedgerLine again;

	write_line(kind, line, once);
	if (kind != VIAL_LEDGER_LINE_RECORD)
		return;
	assert(vial_ledger_read_line(once->str, once->len - 1, &again) == kind);
	assert(again.record.seq == line->record.seq && vial_ledger_hash_equal(&again.record.hash, &line->record.hash));
	assert(again.record.header_size == line->record.header_size && again.record.body_size == line->record.body_size);
	write_line(kind, &again, twice);
	assert(g_string_equal(once, twice));
}

static VialLedgerCheck *give(VialLedgerCheck *check, VialLedgerLineKind kind, const VialLedgerLine *line)
{
	VialLedgerFinding before = check ? vial_ledger_check_verdict(check)->finding : VIAL_LEDGER_GOOD, after;
	gboolean is_good = TRUE;

	if (!check && kind == VIAL_LEDGER_LINE_TITLE)
		return vial_ledger_check_new(line->title.chain, line->title.first, line->title.first > 1 ? &line->title.previous : NULL,
		                             &line->title.key, 1);
	if (!check)
		return NULL;
	if (kind == VIAL_LEDGER_LINE_RECORD)
		is_good = vial_ledger_check_record(check, &line->record);
	else if (kind == VIAL_LEDGER_LINE_HEAD)
		is_good = vial_ledger_check_head(check, &line->head);
	after = vial_ledger_check_verdict(check)->finding;
	assert(before == VIAL_LEDGER_GOOD || after == before);
	assert(is_good == (after == VIAL_LEDGER_GOOD) || before != VIAL_LEDGER_GOOD ||
	       (kind != VIAL_LEDGER_LINE_RECORD && kind != VIAL_LEDGER_LINE_HEAD));
	return check;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	VialLedgerCheck *check = NULL;

	while (size > 0) {
		const uint8_t *end = memchr(bytes, '\n', size);
		size_t length = end ? (size_t)(end - bytes) : size;
		char *text = malloc(length > 0 ? length : 1);
		VialLedgerLine line;
		VialLedgerLineKind kind;

		assert(text);
		memcpy(text, bytes, length);
		kind = vial_ledger_read_line(text, length, &line);
		check_form(kind, &line);
		check = give(check, kind, &line);
		free(text);
		bytes += MIN(length + 1, size);
		size -= MIN(length + 1, size);
	}
	if (check) {
		gboolean is_good = vial_ledger_check_end(check);
		g_autofree char *sentence = vial_ledger_verdict_text(vial_ledger_check_verdict(check));

		assert(sentence && is_good == (vial_ledger_check_verdict(check)->finding == VIAL_LEDGER_GOOD));
		vial_ledger_check_free(check);
	}
	return 0;
}
