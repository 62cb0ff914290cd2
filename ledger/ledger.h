/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of the record that can be proven, shared by viald, which writes it, and vial, which proves it offline. No I/O, no state of the world; any
 * thread. docs/audit.md explains it for whoever wants to write a verifier of his own.
 *
 * A record is two texts of JSON in one line of ASCII each: a *header* (who, what, when, how it ended) and a *body* (the code, the files). The header
 * says its place and the body's hash:
 *
 *   {"ledger":1,"chain":"…","seq":7, … ,"body_sha256":"…"}
 *
 * Records form a chain:  hash(0) = SHA-256("vial ledger 1 " + chain),  hash(n) = SHA-256(hash(n - 1) + SHA-256(header n)).
 * A body may be removed one day: its hash stays in the header. Of a record that is not for somebody's eyes he is given SHA-256(header) alone, and the
 * chain can still be followed through it. A *head* is hash(n) for some n, signed (Ed25519): who has no key cannot write another history up to a
 * signed head.
 */
#pragma once

#include <glib.h>

#define VIAL_LEDGER_HASH_BYTES 32
#define VIAL_LEDGER_HASH_TEXT (2 * VIAL_LEDGER_HASH_BYTES)
#define VIAL_LEDGER_CHAIN_MAX_BYTES 64
#define VIAL_LEDGER_SIGNATURE_BYTES 64
#define VIAL_LEDGER_KEY_BYTES 32

typedef struct {
	guint8 bytes[VIAL_LEDGER_HASH_BYTES];
} VialLedgerHash;

void vial_ledger_hash(const void *data, gsize size, VialLedgerHash *out);
/* hash(0) */
void vial_ledger_begin(const char *chain, VialLedgerHash *out);
/* hash(n), from hash(n - 1) and the header's hash */
void vial_ledger_link(const VialLedgerHash *previous, const VialLedgerHash *header, VialLedgerHash *out);
gboolean vial_ledger_hash_equal(const VialLedgerHash *a, const VialLedgerHash *b);
/* Hexadecimal, with a NUL; and back: FALSE unless the text begins with so many digits. */
void vial_ledger_hash_write(const VialLedgerHash *hash, char out[VIAL_LEDGER_HASH_TEXT + 1]);
gboolean vial_ledger_hash_read(const char *text, VialLedgerHash *out);

/* All is borrowed. `header` NULL: only its hash is known. `body` NULL: it was removed, or is not shown. */
typedef struct {
	gint64 seq; /* where it stands */
	const char *header;
	gsize header_size;
	VialLedgerHash header_hash; /* when there is no header */
	const char *body;
	gsize body_size;
	VialLedgerHash hash; /* hash(seq), as it is kept beside it */
} VialLedgerRecord;

/* The header's first fields and its last, which have fixed places; FALSE when they are not there. `out_chain` may be NULL. */
gboolean vial_ledger_header_read(const char *header, gsize size, gint64 *out_seq, char out_chain[VIAL_LEDGER_CHAIN_MAX_BYTES + 1],
                                 VialLedgerHash *out_body);
/* What a header begins with, up to where its own fields follow, without a comma; and ends with. */
void vial_ledger_header_begin(GString *out, const char *chain, gint64 seq);
void vial_ledger_header_end(GString *out, const VialLedgerHash *body);
