/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: an export of the record, as somebody may have left it on the disk of whoever verifies it. A line that is understood says what stands
 * there, to the byte; and whatever the lines say, nothing counts as signed that nobody with the key has signed.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "ledger/check.h"
#include "ledger/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Of nobody: its other half was thrown away. */
static const VialLedgerKey *stranger(void)
{
	static VialLedgerKey key;
	static gboolean is_made;

	if (!is_made) {
		VialLedgerSigner *signer = vial_ledger_signer_new(NULL);

		assert(signer);
		vial_ledger_signer_key(signer, &key);
		vial_ledger_signer_free(signer);
		is_made = TRUE;
	}
	return &key;
}

static void check_again(VialLedgerLineKind kind, const VialLedgerLine *line, const char *text, gsize size)
{
	g_autoptr(GString) again = g_string_new(NULL);

	switch (kind) {
	case VIAL_LEDGER_LINE_RECORD:
		assert(!line->record.header || (line->record.header >= text && line->record.header + line->record.header_size <= text + size));
		assert(!line->record.body || (line->record.body >= text && line->record.body + line->record.body_size <= text + size));
		assert(line->record.seq >= 0);
		vial_ledger_write_record(again, &line->record);
		break;
	case VIAL_LEDGER_LINE_TITLE:
		assert(memchr(line->title.chain, '\0', sizeof(line->title.chain)));
		return;
	case VIAL_LEDGER_LINE_HEAD:
		assert(memchr(line->head.chain, '\0', sizeof(line->head.chain)));
		return;
	default:
		return;
	}
	/* Digits of numbers and hashes may be written otherwise (leading zeros, capitals); as many they are. */
	if (line->record.header)
		assert(again->len == size + 1);
}

static gboolean give(VialLedgerCheck *check, VialLedgerLineKind kind, const VialLedgerLine *line)
{
	switch (kind) {
	case VIAL_LEDGER_LINE_RECORD:
		return vial_ledger_check_record(check, &line->record);
	case VIAL_LEDGER_LINE_HEAD:
		return vial_ledger_check_head(check, &line->head);
	default:
		return TRUE;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *at = (const char *)bytes, *end = at + size;
	VialLedgerCheck *check = NULL;
	gboolean is_good = TRUE;

	while (at < end) {
		const char *stop = memchr(at, '\n', (gsize)(end - at));
		gsize length = (gsize)((stop ? stop : end) - at);
		VialLedgerLine line;
		VialLedgerLineKind kind = vial_ledger_read_line(at, length, &line);

		check_again(kind, &line, at, length);
		if (kind == VIAL_LEDGER_LINE_TITLE && !check)
			check = vial_ledger_check_new(line.title.chain, line.title.first, &line.title.previous, stranger(), 1);
		else if (check && is_good)
			is_good = give(check, kind, &line);
		at += length + 1;
	}
	if (!check)
		return 0;
	if (is_good)
		vial_ledger_check_end(check);
	const VialLedgerVerdict *verdict = vial_ledger_check_verdict(check);
	g_autofree char *text = vial_ledger_verdict_text(verdict);
	assert(text && *text && verdict->signed_through == 0 && verdict->heads == 0);
	vial_ledger_check_free(check);
	return 0;
}
