/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed heads, and the keys they are signed with: Ed25519, by GnuTLS. A head signs the text
 * "vial head 1\nCHAIN\nSEQ\nHASH\nTIME\n" (HASH in hexadecimal, TIME in milliseconds since the epoch).
 */
#pragma once

#include "ledger/ledger.h"

typedef struct {
	char chain[VIAL_LEDGER_CHAIN_MAX_BYTES + 1];
	gint64 seq;
	VialLedgerHash hash;
	gint64 time_ms;
	guint8 signature[VIAL_LEDGER_SIGNATURE_BYTES];
} VialLedgerHead;

/* Errors of this folder: a key or a text that is none. */
#define VIAL_LEDGER_ERROR (vial_ledger_error_quark())
GQuark vial_ledger_error_quark(void);

/* The secret: made, or read from PEM (PKCS #8, as `openssl genpkey -algorithm ed25519` writes it). */
typedef struct VialLedgerSigner VialLedgerSigner;
VialLedgerSigner *vial_ledger_signer_new(GError **error);
VialLedgerSigner *vial_ledger_signer_read(const char *pem, gsize size, GError **error);
char *vial_ledger_signer_pem(const VialLedgerSigner *signer, GError **error); /* clear it before it is freed */
void vial_ledger_signer_free(VialLedgerSigner *signer);                       /* accepts NULL */
/* Fills in the signature of the rest. */
gboolean vial_ledger_sign(const VialLedgerSigner *signer, VialLedgerHead *head, GError **error);

/* What everybody may know. */
typedef struct {
	guint8 bytes[VIAL_LEDGER_KEY_BYTES];
} VialLedgerKey;
void vial_ledger_signer_key(const VialLedgerSigner *signer, VialLedgerKey *out);
char *vial_ledger_key_pem(const VialLedgerKey *key);
/* From PEM or 64 hexadecimal digits. */
gboolean vial_ledger_key_read(const char *text, gsize size, VialLedgerKey *out, GError **error);
void vial_ledger_key_write(const VialLedgerKey *key, char out[2 * VIAL_LEDGER_KEY_BYTES + 1]);
gboolean vial_ledger_head_is_signed(const VialLedgerHead *head, const VialLedgerKey *key);

/* {"chain":"…","seq":7,"hash":"…","time_ms":…,"signature":"…"} on one line; and back. */
void vial_ledger_head_write(const VialLedgerHead *head, GString *out);
gboolean vial_ledger_head_read(const char *text, gsize size, VialLedgerHead *out);
