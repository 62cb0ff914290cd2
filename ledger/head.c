/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/head.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <jansson.h>
#include <string.h>

struct VialLedgerSigner {
	gnutls_privkey_t key;
	VialLedgerKey public;
};

G_DEFINE_QUARK(vial - ledger - error - quark, vial_ledger_error)

static gboolean fail(GError **error, const char *what, int status)
{
	g_set_error(error, VIAL_LEDGER_ERROR, 0, "%s: %s", what, gnutls_strerror(status));
	return FALSE;
}

static void to_hex(const guint8 *bytes, gsize size, char *out)
{
	for (gsize i = 0; i < size; i++)
		g_snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static gboolean from_hex(const char *text, guint8 *out, gsize size)
{
	for (gsize i = 0; i < size; i++) {
		int high = g_ascii_xdigit_value(text[2 * i]), low = high < 0 ? -1 : g_ascii_xdigit_value(text[2 * i + 1]);

		if (low < 0)
			return FALSE;
		out[i] = (guint8)(high << 4 | low);
	}
	return TRUE;
}

/* Signing */

static gboolean learn_public(VialLedgerSigner *signer, GError **error)
{
	gnutls_ecc_curve_t curve;
	gnutls_datum_t x = { NULL, 0 };
	int status;

	if (gnutls_privkey_get_pk_algorithm(signer->key, NULL) != GNUTLS_PK_EDDSA_ED25519) {
		g_set_error(error, VIAL_LEDGER_ERROR, 0, "the key is not for Ed25519; `openssl genpkey -algorithm ed25519` makes one");
		return FALSE;
	}
	status = gnutls_privkey_export_ecc_raw2(signer->key, &curve, &x, NULL, NULL, 0);
	if (status < 0 || x.size != VIAL_LEDGER_KEY_BYTES) {
		gnutls_free(x.data);
		return fail(error, "the key cannot be read", status);
	}
	memcpy(signer->public.bytes, x.data, VIAL_LEDGER_KEY_BYTES);
	gnutls_free(x.data);
	return TRUE;
}

static VialLedgerSigner *finish(VialLedgerSigner *signer, int status, GError **error)
{
	if (status < 0)
		fail(error, "the key cannot be read", status);
	else if (learn_public(signer, error))
		return signer;
	vial_ledger_signer_free(signer);
	return NULL;
}

VialLedgerSigner *vial_ledger_signer_new(GError **error)
{
	VialLedgerSigner *signer = g_new0(VialLedgerSigner, 1);
	int status = gnutls_privkey_init(&signer->key);

	return finish(signer, status < 0 ? status : gnutls_privkey_generate(signer->key, GNUTLS_PK_EDDSA_ED25519, 0, 0), error);
}

VialLedgerSigner *vial_ledger_signer_read(const char *pem, gsize size, GError **error)
{
	VialLedgerSigner *signer = g_new0(VialLedgerSigner, 1);
	gnutls_datum_t data = { (unsigned char *)pem, (unsigned)size };
	int status = gnutls_privkey_init(&signer->key);

	return finish(signer, status < 0 ? status : gnutls_privkey_import_x509_raw(signer->key, &data, GNUTLS_X509_FMT_PEM, NULL, 0), error);
}

char *vial_ledger_signer_pem(const VialLedgerSigner *signer, GError **error)
{
	gnutls_x509_privkey_t key = NULL;
	gnutls_datum_t data = { NULL, 0 };
	char *pem = NULL;
	int status = gnutls_privkey_export_x509(signer->key, &key);

	if (status >= 0)
		status = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &data);
	if (status < 0)
		fail(error, "the key cannot be written", status);
	else
		pem = g_strndup((const char *)data.data, data.size);
	if (data.data)
		explicit_bzero(data.data, data.size);
	gnutls_free(data.data);
	if (key)
		gnutls_x509_privkey_deinit(key);
	return pem;
}

void vial_ledger_signer_free(VialLedgerSigner *signer)
{
	if (!signer)
		return;
	if (signer->key)
		gnutls_privkey_deinit(signer->key);
	g_free(signer);
}

void vial_ledger_signer_key(const VialLedgerSigner *signer, VialLedgerKey *out)
{
	*out = signer->public;
}

static char *signed_text(const VialLedgerHead *head)
{
	char hash[VIAL_LEDGER_HASH_TEXT + 1];

	vial_ledger_hash_write(&head->hash, hash);
	return g_strdup_printf("vial head 1\n%s\n%" G_GINT64_FORMAT "\n%s\n%" G_GINT64_FORMAT "\n", head->chain, head->seq, hash, head->time_ms);
}

gboolean vial_ledger_sign(const VialLedgerSigner *signer, VialLedgerHead *head, GError **error)
{
	g_autofree char *text = signed_text(head);
	gnutls_datum_t data = { (unsigned char *)text, (unsigned)strlen(text) }, signature = { NULL, 0 };
	int status = gnutls_privkey_sign_data2(signer->key, GNUTLS_SIGN_EDDSA_ED25519, 0, &data, &signature);

	if (status < 0 || signature.size != VIAL_LEDGER_SIGNATURE_BYTES) {
		gnutls_free(signature.data);
		return fail(error, "the head cannot be signed", status);
	}
	memcpy(head->signature, signature.data, VIAL_LEDGER_SIGNATURE_BYTES);
	gnutls_free(signature.data);
	return TRUE;
}

/* Checking */

static gnutls_pubkey_t import_key(const VialLedgerKey *key)
{
	gnutls_datum_t x = { (unsigned char *)key->bytes, VIAL_LEDGER_KEY_BYTES };
	gnutls_pubkey_t public = NULL;

	if (gnutls_pubkey_init(&public) < 0)
		return NULL;
	if (gnutls_pubkey_import_ecc_raw(public, GNUTLS_ECC_CURVE_ED25519, &x, NULL) >= 0)
		return public;
	gnutls_pubkey_deinit(public);
	return NULL;
}

gboolean vial_ledger_head_is_signed(const VialLedgerHead *head, const VialLedgerKey *key)
{
	g_autofree char *text = signed_text(head);
	gnutls_datum_t data = { (unsigned char *)text, (unsigned)strlen(text) };
	gnutls_datum_t signature = { (unsigned char *)head->signature, VIAL_LEDGER_SIGNATURE_BYTES };
	gnutls_pubkey_t public = import_key(key);
	gboolean is_signed = public && gnutls_pubkey_verify_data2(public, GNUTLS_SIGN_EDDSA_ED25519, 0, &data, &signature) >= 0;

	if (public)
		gnutls_pubkey_deinit(public);
	return is_signed;
}

char *vial_ledger_key_pem(const VialLedgerKey *key)
{
	gnutls_pubkey_t public = import_key(key);
	gnutls_datum_t data = { NULL, 0 };
	char *pem = NULL;

	if (public && gnutls_pubkey_export2(public, GNUTLS_X509_FMT_PEM, &data) >= 0)
		pem = g_strndup((const char *)data.data, data.size);
	gnutls_free(data.data);
	if (public)
		gnutls_pubkey_deinit(public);
	return pem;
}

static gboolean read_pem(const char *text, gsize size, VialLedgerKey *out)
{
	gnutls_datum_t data = { (unsigned char *)text, (unsigned)size }, x = { NULL, 0 };
	gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
	gnutls_pubkey_t public = NULL;
	gboolean is_read = gnutls_pubkey_init(&public) >= 0 && gnutls_pubkey_import(public, &data, GNUTLS_X509_FMT_PEM) >= 0 &&
	                   gnutls_pubkey_export_ecc_raw2(public, &curve, &x, NULL, 0) >= 0 && curve == GNUTLS_ECC_CURVE_ED25519 &&
	                   x.size == VIAL_LEDGER_KEY_BYTES;

	if (is_read)
		memcpy(out->bytes, x.data, VIAL_LEDGER_KEY_BYTES);
	gnutls_free(x.data);
	if (public)
		gnutls_pubkey_deinit(public);
	return is_read;
}

gboolean vial_ledger_key_read(const char *text, gsize size, VialLedgerKey *out, GError **error)
{
	g_autofree char *copy = g_strstrip(g_strndup(text, size));
	gsize length = strlen(copy);

	if ((length == 2 * VIAL_LEDGER_KEY_BYTES && from_hex(copy, out->bytes, VIAL_LEDGER_KEY_BYTES)) || read_pem(copy, length, out))
		return TRUE;
	g_set_error(error, VIAL_LEDGER_ERROR, 0, "this is no public key for Ed25519: neither PEM nor 64 hexadecimal digits");
	return FALSE;
}

void vial_ledger_key_write(const VialLedgerKey *key, char out[2 * VIAL_LEDGER_KEY_BYTES + 1])
{
	to_hex(key->bytes, VIAL_LEDGER_KEY_BYTES, out);
}

/* As text */

void vial_ledger_head_write(const VialLedgerHead *head, GString *out)
{
	char hash[VIAL_LEDGER_HASH_TEXT + 1], signature[2 * VIAL_LEDGER_SIGNATURE_BYTES + 1];

	vial_ledger_hash_write(&head->hash, hash);
	to_hex(head->signature, VIAL_LEDGER_SIGNATURE_BYTES, signature);
	g_string_append_printf(
		out, "{\"chain\":\"%s\",\"seq\":%" G_GINT64_FORMAT ",\"hash\":\"%s\",\"time_ms\":%" G_GINT64_FORMAT ",\"signature\":\"%s\"}",
		head->chain, head->seq, hash, head->time_ms, signature);
}

gboolean vial_ledger_head_read(const char *text, gsize size, VialLedgerHead *out)
{
	json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	const char *chain = NULL, *hash = NULL, *signature = NULL;
	json_int_t seq = 0, time_ms = 0;
	gboolean is_read = json && json_unpack(json, "{s:s, s:I, s:s, s:I, s:s}", "chain", &chain, "seq", &seq, "hash", &hash, "time_ms", &time_ms,
	                                       "signature", &signature) == 0;

	is_read = is_read && strlen(chain) <= VIAL_LEDGER_CHAIN_MAX_BYTES && seq > 0 && strlen(hash) == VIAL_LEDGER_HASH_TEXT &&
	          strlen(signature) == 2 * VIAL_LEDGER_SIGNATURE_BYTES && vial_ledger_hash_read(hash, &out->hash) &&
	          from_hex(signature, out->signature, VIAL_LEDGER_SIGNATURE_BYTES);
	if (is_read) {
		g_strlcpy(out->chain, chain, sizeof(out->chain));
		out->seq = seq;
		out->time_ms = time_ms;
	}
	json_decref(json);
	return is_read;
}
