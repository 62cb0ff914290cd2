/* SPDX-License-Identifier: Apache-2.0 */
#include "util/base64.h"

#include <string.h>

gboolean vial_base64_is_valid(const char *text)
{
	gsize body = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"), padding = strspn(text + body, "=");

	return text[body + padding] == '\0' && padding <= 2 && (body + padding) % 4 == 0;
}

GBytes *vial_base64_decode(const char *text)
{
	guchar *bytes;
	gsize size;

	if (!vial_base64_is_valid(text))
		return NULL;
	bytes = g_base64_decode(text, &size);
	return g_bytes_new_take(bytes, size);
}
