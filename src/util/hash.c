/* SPDX-License-Identifier: Apache-2.0 */
#include "util/hash.h"

#include <string.h>

void vial_sha256(const void *data, gsize size, guint8 out[VIAL_SHA256_BYTES])
{
	g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
	gsize length = VIAL_SHA256_BYTES;

	g_checksum_update(sum, data, (gssize)size);
	g_checksum_get_digest(sum, out, &length);
}

void vial_hmac_sha256(const void *key, gsize key_size, const void *data, gsize size, guint8 out[VIAL_SHA256_BYTES])
{
	g_autoptr(GHmac) hmac = g_hmac_new(G_CHECKSUM_SHA256, key, key_size);
	gsize length = VIAL_SHA256_BYTES;

	g_hmac_update(hmac, data, (gssize)size);
	g_hmac_get_digest(hmac, out, &length);
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
