/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/e2b/build_id.h"

#include <string.h>

#include "util/id.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"
#define BASE (sizeof(LETTERS) - 1)
#define UUID_DIGITS 32

/* 36^20 is less than 2^104: any id fits. */
char *vial_e2b_uuid(const char *id)
{
	unsigned __int128 number = 0;
	char digits[UUID_DIGITS + 1] = "";

	g_return_val_if_fail(vial_id_is_valid(id), g_strdup(""));
	for (const char *c = id; *c; c++)
		number = number * BASE + (guint64)(strchr(LETTERS, *c) - LETTERS);
	for (gsize i = UUID_DIGITS; i > 0; i--, number >>= 4)
		digits[i - 1] = "0123456789abcdef"[(unsigned)(number & 15)];
	return g_strdup_printf("%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8, digits + 12, digits + 16, digits + 20);
}

char *vial_e2b_uuid_to_id(const char *uuid)
{
	unsigned __int128 number = 0;
	char id[VIAL_ID_LENGTH + 1] = "";
	gsize n_digits = 0;

	for (const char *c = uuid; *c; c++) {
		if (*c == '-')
			continue;
		if (!g_ascii_isxdigit(*c) || ++n_digits > UUID_DIGITS)
			return NULL;
		number = number << 4 | (unsigned)g_ascii_xdigit_value(*c);
	}
	for (gsize i = VIAL_ID_LENGTH; i > 0; i--, number /= BASE)
		id[i - 1] = LETTERS[(gsize)(number % BASE)];
	return n_digits == UUID_DIGITS && number == 0 ? g_strdup(id) : NULL;
}
