/* SPDX-License-Identifier: Apache-2.0 */
#include "util/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static const char id_alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
static const char secret_alphabet[] = "0123456789abcdef";

static void fill_random(guint8 *bytes, gsize size)
{
	while (size > 0) {
		ssize_t n = getrandom(bytes, size, 0);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			/* Without randomness every promise about keys and ids is void; there is nothing to fall back to. */
			g_error("getrandom: %s", g_strerror(errno));
		}
		bytes += n;
		size -= (gsize)n;
	}
}

/* Rejection sampling: a byte at or above the largest multiple of the alphabet's size would favour its first letters. */
static void fill_text(char *out, gsize length, const char *alphabet)
{
	gsize letters = strlen(alphabet), limit = 256 - 256 % letters, done = 0;
	guint8 bytes[64];

	while (done < length) {
		fill_random(bytes, sizeof(bytes));
		for (gsize i = 0; i < sizeof(bytes) && done < length; i++)
			if (bytes[i] < limit)
				out[done++] = alphabet[bytes[i] % letters];
	}
	out[length] = '\0';
}

void vial_id_fill(char out[VIAL_ID_LENGTH + 1])
{
	fill_text(out, VIAL_ID_LENGTH, id_alphabet);
}

char *vial_id_new(void)
{
	char *id = g_malloc(VIAL_ID_LENGTH + 1);

	vial_id_fill(id);
	return id;
}

gboolean vial_id_is_valid(const char *text)
{
	if (!text)
		return FALSE;
	for (gsize i = 0; i < VIAL_ID_LENGTH; i++)
		if (!g_ascii_islower(text[i]) && !g_ascii_isdigit(text[i]))
			return FALSE;
	return text[VIAL_ID_LENGTH] == '\0';
}

char *vial_secret_new(const char *prefix, gsize length)
{
	gsize prefix_length = strlen(prefix);
	char *secret = g_malloc(prefix_length + length + 1);

	memcpy(secret, prefix, prefix_length);
	fill_text(secret + prefix_length, length, secret_alphabet);
	return secret;
}
