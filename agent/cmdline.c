/* SPDX-License-Identifier: Apache-2.0 */
#include "cmdline.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6"

struct line {
	char text[VIAL_CMDLINE_BYTES + sizeof(ELLIPSIS)];
	size_t length;
	bool is_full;
};

static void put(struct line *line, const char *text, size_t length)
{
	size_t room = VIAL_CMDLINE_BYTES - line->length;

	if (length > room) {
		line->is_full = true;
		length = room;
	}
	memcpy(line->text + line->length, text, length);
	line->length += length;
}

static bool is_plain(const char *word)
{
	return *word && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")] == '\0';
}

/* In single quotes everything is itself, except the quote: 'it'\''s'. */
static void put_quoted(struct line *line, const char *word)
{
	put(line, "'", 1);
	while (*word && !line->is_full) {
		size_t length = strcspn(word, "'");

		put(line, word, length);
		word += length;
		if (*word == '\'') {
			put(line, "'\\''", 4);
			word++;
		}
	}
	put(line, "'", 1);
}

static char *finish(struct line *line)
{
	/* Not in the middle of a UTF-8 character. */
	if (line->is_full) {
		while (line->length && ((unsigned char)line->text[line->length - 1] & 0xc0) == 0x80)
			line->length--;
		if (line->length && (unsigned char)line->text[line->length - 1] >= 0xc0)
			line->length--;
		memcpy(line->text + line->length, ELLIPSIS, sizeof(ELLIPSIS) - 1);
		line->length += sizeof(ELLIPSIS) - 1;
	}
	return strndup(line->text, line->length);
}

char *vial_cmdline_from_argv(const char *const *argv)
{
	struct line line = { .length = 0 };

	for (const char *const *word = argv; *word && !line.is_full; word++) {
		if (word != argv)
			put(&line, " ", 1);
		if (is_plain(*word))
			put(&line, *word, strlen(*word));
		else
			put_quoted(&line, *word);
	}
	return finish(&line);
}

char *vial_cmdline_from_shell(const char *text)
{
	struct line line = { .length = 0 };

	put(&line, text, strlen(text));
	return finish(&line);
}
