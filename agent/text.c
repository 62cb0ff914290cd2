/* SPDX-License-Identifier: Apache-2.0 */
/* See text.h. */
#include "text.h"

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
