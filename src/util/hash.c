/* SPDX-License-Identifier: Apache-2.0 */
#include "util/hash.h"

#include <gnutls/crypto.h>
#include <string.h>

void vial_sha256(const void *data, gsize size, guint8 out[VIAL_SHA256_BYTES])
{
	/* It fails for algorithms that it does not have, which this is not. */
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, data, size, out) < 0)
		g_error("GnuTLS has no SHA-256");
}

void vial_hmac_sha256(const void *key, gsize key_size, const void *data, gsize size, guint8 out[VIAL_SHA256_BYTES])
{
	if (gnutls_hmac_fast(GNUTLS_MAC_SHA256, key, key_size, data, size, out) < 0)
		g_error("GnuTLS has no HMAC-SHA-256");
}

struct VialSha256 {
	gnutls_hash_hd_t handle;
};

VialSha256 *vial_sha256_new(void)
{
	VialSha256 *sum = g_new0(VialSha256, 1);

	if (gnutls_hash_init(&sum->handle, GNUTLS_DIG_SHA256) < 0)
		g_error("GnuTLS has no SHA-256");
	return sum;
}

void vial_sha256_add(VialSha256 *sum, const void *data, gsize size)
{
	gnutls_hash(sum->handle, data, size);
}

char *vial_sha256_text(const VialSha256 *sum)
{
	gnutls_hash_hd_t copy = gnutls_hash_copy(sum->handle);
	guint8 digest[VIAL_SHA256_BYTES];

	gnutls_hash_deinit(copy, digest);
	return vial_hex_encode(digest, sizeof(digest));
}

void vial_sha256_free(VialSha256 *sum)
{
	if (!sum)
		return;
	gnutls_hash_deinit(sum->handle, NULL);
	g_free(sum);
}

gboolean vial_constant_time_equal(const void *a, const void *b, gsize size)
{
	const volatile guint8 *x = a, *y = b;
	guint8 difference = 0;

	for (gsize i = 0; i < size; i++)
		difference |= x[i] ^ y[i];
	return difference == 0;
}

char *vial_hex_encode(const void *data, gsize size)
{
	const guint8 *bytes = data;
	char *text = g_malloc(2 * size + 1);

	for (gsize i = 0; i < size; i++) {
		text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	text[2 * size] = '\0';
	return text;
}

gboolean vial_hex_decode(const char *text, void *out, gsize size)
{
	guint8 *bytes = out;

	if (strlen(text) != 2 * size)
		return FALSE;
	for (gsize i = 0; i < 2 * size; i++)
		if (!g_ascii_isxdigit(text[i]))
			return FALSE;
	for (gsize i = 0; i < size; i++)
		bytes[i] = (guint8)(g_ascii_xdigit_value(text[2 * i]) << 4 | g_ascii_xdigit_value(text[2 * i + 1]));
	return TRUE;
}
