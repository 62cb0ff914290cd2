/* SPDX-License-Identifier: Apache-2.0 */
/* See text.h. */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many bytes at `text` form one valid UTF-8 character; 0 if none do. */
static size_t utf8_length(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	size_t length = *c < 0x80 ? 1 : *c >= 0xc2 && *c < 0xe0 ? 2 : *c >= 0xe0 && *c < 0xf0 ? 3 : *c >= 0xf0 && *c < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	}
	if (length == 3 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0)))
		return 0;
	if (length == 4 && ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90)))
		return 0;
	return length;
}

json_t *vial_json_text(const char *text)
{
	json_t *value = json_string(text);
	char *clean, *out;

	if (value)
		return value;
	clean = out = malloc(strlen(text) * 3 + 1);
	if (!clean)
		return json_string("");
	while (*text) {
		size_t length = utf8_length(text);

		memcpy(out, length ? text : "\xef\xbf\xbd", length ? length : 3);
		out += length ? length : 3;
		text += length ? length : 1;
	}
	*out = '\0';
	value = json_string(clean);
	free(clean);
	return value;
}

/* Of what is known to be UTF-8: where a piece of at most `limit` bytes must end. */
static size_t whole_characters(const char *text, size_t limit)
{
	while (limit > 0 && ((unsigned char)text[limit] & 0xc0) == 0x80)
		limit--;
	return limit;
}

json_t *vial_json_text_cut(const char *text, size_t size_bytes, size_t limit)
{
	int kept = (int)whole_characters(text, limit);

	return json_sprintf("%.*s\n[cut: %zu bytes in all]", kept, text, size_bytes);
}

static bool is_control(const unsigned char *c)
{
	return *c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0);
}

bool vial_text_is_printable(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	while (*c && !is_control(c))
		c++;
	return *c == '\0';
}

json_t *vial_json_name(const char *text, size_t limit)
{
	size_t size = strlen(text), kept = size > limit ? whole_characters(text, limit) : size;
	char *clean = malloc(kept * 3 + 1), *out = clean;
	json_t *value;

	if (!clean)
		return NULL;
	for (const char *at = text; at < text + kept;) {
		size_t length = utf8_length(at);
		bool is_bad = length == 0 || is_control((const unsigned char *)at);

		memcpy(out, is_bad ? "\xef\xbf\xbd" : at, is_bad ? 3 : length);
		out += is_bad ? 3 : length;
		at += length ? length : 1;
	}
	*out = '\0';
	value = json_string(clean);
	free(clean);
	return value;
}
