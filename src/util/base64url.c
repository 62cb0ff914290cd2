/* SPDX-License-Identifier: Apache-2.0 */
#include "util/base64url.h"

#include <string.h>

/* The same in the ordinary alphabet and with padding, for GLib. */
static char *to_base64(const char *text, gsize length)
{
	gsize padding = (4 - length % 4) % 4;
	char *out = g_malloc(length + padding + 1);

	for (gsize i = 0; i < length; i++) {
		if (!g_ascii_isalnum(text[i]) && text[i] != '-' && text[i] != '_') {
			g_free(out);
			return NULL;
		}
		out[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
	}
	memset(out + length, '=', padding);
	out[length + padding] = '\0';
	return out;
}

guint8 *vial_base64url_decode(const char *text, gsize length, gsize *out_size)
{
	g_autofree char *base64 = NULL, *again = NULL;
	g_autofree guint8 *bytes = NULL;
	gsize size = 0;

	if (length == 0 || length % 4 == 1)
		return NULL;
	base64 = to_base64(text, length);
	if (!base64)
		return NULL;
	/* GLib's decoder overlooks a great deal, such as bits behind the last byte: what is written back must be the same text. */
	bytes = g_base64_decode(base64, &size);
	again = g_base64_encode(bytes, size);
	if (strcmp(base64, again) != 0)
		return NULL;
	bytes = g_realloc(bytes, size + 1);
	bytes[size] = '\0';
	*out_size = size;
	return g_steal_pointer(&bytes);
}
