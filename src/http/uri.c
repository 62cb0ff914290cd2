/* SPDX-License-Identifier: Apache-2.0 */
#include "http/uri.h"

#include <string.h>

#include "util/error.h"

char *vial_uri_decode(VialArena *arena, const char *text, gsize size, gboolean plus_is_space)
{
	char *out = vial_arena_copy(arena, text, size);
	gsize length = 0;

	for (gsize i = 0; i < size; i++) {
		char c = text[i];
		if (c == '%') {
			if (size - i < 3 || !g_ascii_isxdigit(text[i + 1]) || !g_ascii_isxdigit(text[i + 2]))
				return NULL;
			c = (char)(g_ascii_xdigit_value(text[i + 1]) << 4 | g_ascii_xdigit_value(text[i + 2]));
			i += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		if (c == '\0')
			return NULL;
		out[length++] = c;
	}
	out[length] = '\0';
	return g_utf8_validate(out, (gssize)length, NULL) ? out : NULL;
}

static gboolean parse_pairs(VialArena *arena, const char *what, const char *text, VialPair **out_pairs, gsize *out_count, GError **error)
{
	VialPair pairs[VIAL_QUERY_MAX_PAIRS];
	gsize count = 0;

	while (*text) {
		gsize length = strcspn(text, "&");
		if (length > 0) {
			const char *equals = memchr(text, '=', length);
			gsize name_length = equals ? (gsize)(equals - text) : length;
			if (count == VIAL_QUERY_MAX_PAIRS)
				return vial_fail(error, VIAL_ERROR_INVALID, "the %s has more than %d parameters", what, VIAL_QUERY_MAX_PAIRS);
			char *name = vial_uri_decode(arena, text, name_length, TRUE);
			char *value = equals ? vial_uri_decode(arena, equals + 1, length - name_length - 1, TRUE) : (char *)"";
			if (!name || !value)
				return vial_fail(error, VIAL_ERROR_INVALID,
				                 "the %s%s%s%s is not valid: escapes must be %%XX, the text UTF-8 without NUL", what,
				                 name ? " parameter \"" : "", name ? name : "", name ? "\"" : "");
			pairs[count++] = (VialPair){ name, value };
		}
		text += length;
		if (*text == '&')
			text++;
	}
	*out_pairs = NULL;
	*out_count = count;
	if (count > 0) {
		*out_pairs = vial_arena_alloc(arena, count * sizeof(VialPair));
		memcpy(*out_pairs, pairs, count * sizeof(VialPair));
	}
	return TRUE;
}

gboolean vial_query_parse(VialArena *arena, const char *text, VialPair **out_pairs, gsize *out_count, GError **error)
{
	return parse_pairs(arena, "query", text, out_pairs, out_count, error);
}

gboolean vial_form_parse(VialArena *arena, GBytes *body, VialPair **out_pairs, gsize *out_count, GError **error)
{
	gsize size;
	const char *bytes = g_bytes_get_data(body, &size);

	if (size > 0 && memchr(bytes, '\0', size))
		return vial_fail(error, VIAL_ERROR_INVALID, "the form is not valid: there is a NUL in it");
	return parse_pairs(arena, "form", vial_arena_copy(arena, size > 0 ? bytes : "", size), out_pairs, out_count, error);
}
