/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the VT500 parser (Paul Williams' diagram), folded to what matters here:
 *
 *   TEXT     ESC → ESCAPE, U+009B → CSI, U+0090 U+0098 U+009D U+009E U+009F → STRING; other controls are dropped
 *   ESCAPE   [ → CSI, ] P X ^ _ → STRING, blank to / → ESCAPE (one more follows), else → TEXT, dropped
 *   CSI      0x40..0x7e ends it
 *   STRING   BEL, U+009C or ESC \ ends it; so does a line feed, since no honest one has one and a lost end must not eat the rest
 */
#include "util/ansi.h"

#include <string.h>

enum { TEXT, ESCAPE, CSI, STRING, STRING_ESCAPE };

static gboolean is_string_start(gunichar c)
{
	return c == 0x90 || c == 0x98 || c == 0x9d || c == 0x9e || c == 0x9f;
}

static guint8 after_escape(gunichar c)
{
	if (c == '[')
		return CSI;
	if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_')
		return STRING;
	return c >= 0x20 && c <= 0x2f ? ESCAPE : TEXT;
}

/* Moves on by one character; TRUE when it is to be kept. */
static gboolean take(VialAnsi *ansi, gunichar c)
{
	gboolean is_control = c < 0x20 || (c >= 0x7f && c <= 0x9f);

	if (c == 0x1b) {
		ansi->state = ansi->state == STRING ? STRING_ESCAPE : ESCAPE;
		return FALSE;
	}
	switch (ansi->state) {
	case ESCAPE:
		ansi->state = after_escape(c);
		return FALSE;
	case STRING_ESCAPE:
		ansi->state = c == '\\' ? TEXT : after_escape(c);
		return FALSE;
	case CSI:
		if (is_control || c > 0x7e) /* broken off: what follows is text again */
			break;
		if (c >= 0x40)
			ansi->state = TEXT;
		return FALSE;
	case STRING:
		if (c == '\n')
			break;
		if (c == 0x07 || c == 0x9c)
			ansi->state = TEXT;
		return FALSE;
	}
	ansi->state = c == 0x9b ? CSI : is_string_start(c) ? STRING : TEXT;
	/* U+0085 ends a line, as U+2028 does, and hides nothing. */
	return !is_control || c == '\n' || c == '\r' || c == '\t' || c == 0x85;
}

/* Most output is nothing else, and it may be gigabytes. */
static gsize plain_run(const char *text, const char *end)
{
	const char *next = text;

	while (next < end && ((*next >= 0x20 && *next < 0x7f) || *next == '\n'))
		next++;
	return (gsize)(next - text);
}

void vial_ansi_strip(VialAnsi *ansi, GString *text)
{
	const char *from = text->str, *end = text->str + text->len;
	char *to = text->str;

	while (from < end) {
		gsize plain = ansi->state == TEXT ? plain_run(from, end) : 0;
		const char *next;

		if (to != from)
			memmove(to, from, plain);
		from += plain;
		to += plain;
		if (from == end)
			break;
		next = g_utf8_next_char(from);
		if (take(ansi, g_utf8_get_char(from)))
			while (from < next)
				*to++ = *from++;
		from = next;
	}
	g_string_truncate(text, (gsize)(to - text->str));
}

char *vial_ansi_clean(const char *text)
{
	VialAnsi ansi = { 0 };
	GString *clean;

	if (!text)
		return NULL;
	clean = g_string_new(text);
	vial_ansi_strip(&ansi, clean);
	return g_string_free(clean, FALSE);
}
