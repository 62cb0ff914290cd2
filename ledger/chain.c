/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/ledger.h"

#include <gnutls/crypto.h>
#include <string.h>

#define HEADER_BEGIN "{\"ledger\":1,\"chain\":\""
#define HEADER_SEQ "\",\"seq\":"
#define HEADER_END ",\"body_sha256\":\""

void vial_ledger_hash(const void *data, gsize size, VialLedgerHash *out)
{
	/* It fails for algorithms that it does not have, which this is not. */
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, data, size, out->bytes) < 0)
		g_error("GnuTLS has no SHA-256");
}

void vial_ledger_begin(const char *chain, VialLedgerHash *out)
{
	g_autofree char *text = g_strconcat("vial ledger 1 ", chain, NULL);

	vial_ledger_hash(text, strlen(text), out);
}

void vial_ledger_link(const VialLedgerHash *previous, const VialLedgerHash *header, VialLedgerHash *out)
{
	VialLedgerHash both[2] = { *previous, *header };

	vial_ledger_hash(both, sizeof(both), out);
}

gboolean vial_ledger_hash_equal(const VialLedgerHash *a, const VialLedgerHash *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

void vial_ledger_hash_write(const VialLedgerHash *hash, char out[VIAL_LEDGER_HASH_TEXT + 1])
{
	for (gsize i = 0; i < VIAL_LEDGER_HASH_BYTES; i++) {
		out[2 * i] = "0123456789abcdef"[hash->bytes[i] >> 4];
		out[2 * i + 1] = "0123456789abcdef"[hash->bytes[i] & 15];
	}
	out[VIAL_LEDGER_HASH_TEXT] = '\0';
}

/* A digit's value plus one; 0 for what is none. A verifier reads four hashes per record, so this is a table and no function of somebody else's. */
static const guint8 digits[256] = {
	['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11,
	['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

gboolean vial_ledger_hash_read(const char *text, VialLedgerHash *out)
{
	VialLedgerHash hash;

	for (gsize i = 0; i < VIAL_LEDGER_HASH_BYTES; i++) {
		guint8 high = digits[(guint8)text[2 * i]], low = high ? digits[(guint8)text[2 * i + 1]] : 0;

		if (!low)
			return FALSE;
		hash.bytes[i] = (guint8)((high - 1) << 4 | (low - 1));
	}
	*out = hash;
	return TRUE;
}

void vial_ledger_header_begin(GString *out, const char *chain, gint64 seq)
{
	g_string_append_printf(out, HEADER_BEGIN "%s" HEADER_SEQ "%" G_GINT64_FORMAT, chain, seq);
}

void vial_ledger_header_end(GString *out, const VialLedgerHash *body)
{
	char text[VIAL_LEDGER_HASH_TEXT + 1];

	vial_ledger_hash_write(body, text);
	g_string_append_printf(out, HEADER_END "%s\"}", text);
}

/* Where `mark` stands at the front of [at, end): what follows it; else NULL. */
static const char *skip(const char *at, const char *end, const char *mark)
{
	gsize length = strlen(mark);

	return at && (gsize)(end - at) >= length && memcmp(at, mark, length) == 0 ? at + length : NULL;
}

static const char *read_seq(const char *at, const char *end, gint64 *out)
{
	gint64 seq = 0;
	const char *first = at;

	for (; at < end && g_ascii_isdigit(*at); at++) {
		if (at - first == 18) /* more than there ever are, and still no overflow */
			return NULL;
		seq = seq * 10 + (*at - '0');
	}
	*out = seq;
	return at > first && at < end && *at == ',' ? at : NULL;
}

gboolean vial_ledger_header_read(const char *header, gsize size, gint64 *out_seq, char out_chain[VIAL_LEDGER_CHAIN_MAX_BYTES + 1],
                                 VialLedgerHash *out_body)
{
	const char *end = header + size, *chain = skip(header, end, HEADER_BEGIN), *at = chain;
	gsize tail = strlen(HEADER_END) + VIAL_LEDGER_HASH_TEXT + strlen("\"}"), length;

	while (at && at < end && g_ascii_isalnum(*at))
		at++;
	length = chain ? (gsize)(at - chain) : 0;
	at = skip(at, end, HEADER_SEQ);
	if (!at || length == 0 || length > VIAL_LEDGER_CHAIN_MAX_BYTES || !(at = read_seq(at, end, out_seq)) || (gsize)(end - at) < tail)
		return FALSE;
	at = skip(end - tail, end, HEADER_END);
	if (!at || !vial_ledger_hash_read(at, out_body) || !skip(at + VIAL_LEDGER_HASH_TEXT, end, "\"}"))
		return FALSE;
	if (out_chain) {
		memcpy(out_chain, chain, length);
		out_chain[length] = '\0';
	}
	return TRUE;
}
