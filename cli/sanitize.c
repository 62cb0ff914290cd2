/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter's states, after the VT500 parser (Paul Williams' diagram), folded to what matters here:
 *
 *   TEXT     ESC → ESCAPE, 0x9b → CSI, 0x9d 0x90 0x98 0x9e 0x9f → STRING, 0xc2..0xf4 → UTF8_n
 *   ESCAPE   [ → CSI, ] P X ^ _ → STRING, blank to / → ESCAPE (one more byte follows), else → TEXT, dropped
 *   CSI      0x40..0x7e ends it: kept when it is a plain colour; another ESC starts over
 *   STRING   BEL or ESC \ or 0x9c ends it; all of it is dropped
 *   UTF8_n   inside a character, n bytes to come: 0x80..0x9f are controls only outside one. U+0080..U+009F are the same
 *            controls in their UTF-8 form, and some terminals obey them. What is not UTF-8 becomes U+FFFD.
 */
#include "cli/sanitize.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT, ESCAPE, CSI, STRING, STRING_ESCAPE, UTF8_1, UTF8_2, UTF8_3 };
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* A colour is digits, ';' and ':' before 'm'; and 8 (conceal) hides text, unless it is an argument of 38, 48 or 58. */
static gboolean is_harmless_color(const char *parameters)
{
	if (strspn(parameters, "0123456789;:") != strlen(parameters))
		return FALSE;
	g_auto(GStrv) words = g_strsplit(parameters, ";", -1);
	for (int i = 0; words[i]; i++) {
		int code = atoi(words[i]);
		if (code == 8)
			return FALSE;
		if ((code == 38 || code == 48 || code == 58) && !strchr(words[i], ':') && words[i + 1]) {
			int kind = atoi(words[i + 1]);
			for (int skip = kind == 5 ? 2 : kind == 2 ? 4 : 1; skip > 0 && words[i + 1]; skip--)
				i++;
		}
	}
	return TRUE;
}

static void end_csi(VialSanitizer *s, char final, GString *out)
{
	s->state = TEXT;
	if (final != 'm' || s->drops_color || s->sequence_size >= VIAL_SANITIZE_SEQUENCE_MAX)
		return;
	s->sequence[s->sequence_size] = '\0';
	if (!is_harmless_color(s->sequence))
		return;
	g_string_append_printf(out, "\033[%sm", s->sequence);
	s->has_color = s->sequence_size > 0 && strcmp(s->sequence, "0") != 0;
}

static void begin(VialSanitizer *s, int state)
{
	s->state = state;
	s->sequence_size = 0;
}

static void begin_character(VialSanitizer *s, unsigned char lead)
{
	begin(s, lead < 0xe0 ? UTF8_1 : lead < 0xf0 ? UTF8_2 : UTF8_3);
	s->sequence[s->sequence_size++] = (char)lead;
}

static void take_text(VialSanitizer *s, unsigned char byte, GString *out)
{
	if (byte == 0x1b)
		begin(s, ESCAPE);
	else if (byte >= 0xc2 && byte <= 0xf4)
		begin_character(s, byte);
	else if (byte == 0x9b)
		begin(s, CSI);
	else if (byte == 0x90 || byte == 0x98 || byte == 0x9d || byte == 0x9e || byte == 0x9f)
		begin(s, STRING);
	else if (byte >= 0x80)
		g_string_append(out, REPLACEMENT);
	else if (byte >= 0x20 ? byte != 0x7f : byte == '\n' || byte == '\t' || byte == '\r' || byte == '\b')
		g_string_append_c(out, (char)byte);
}

static void take_escape(VialSanitizer *s, unsigned char byte)
{
	if (byte == '[')
		begin(s, CSI);
	else if (byte && strchr("]PX^_", byte))
		begin(s, STRING);
	else if (byte == 0x1b || (byte >= 0x20 && byte <= 0x2f))
		s->state = ESCAPE;
	else
		s->state = TEXT;
}

static void take_csi(VialSanitizer *s, unsigned char byte, GString *out)
{
	if (byte == 0x1b)
		begin(s, ESCAPE);
	else if (byte >= 0x40 && byte <= 0x7e)
		end_csi(s, (char)byte, out);
	else if (byte == '\n' || byte >= 0x80)
		s->state = TEXT, take_text(s, byte, out); /* no sequence goes on here: do not swallow what follows */
	else if (byte >= 0x20 && s->sequence_size < VIAL_SANITIZE_SEQUENCE_MAX)
		s->sequence[s->sequence_size++] = (char)byte;
}

static void take_character(VialSanitizer *s, unsigned char byte, GString *out)
{
	if (byte < 0x80 || byte > 0xbf) { /* cut short */
		s->state = TEXT;
		g_string_append(out, REPLACEMENT);
		take_text(s, byte, out);
		return;
	}
	s->sequence[s->sequence_size++] = (char)byte;
	if (s->state != UTF8_1) {
		s->state--;
		return;
	}
	s->state = TEXT;
	if ((unsigned char)s->sequence[0] == 0xc2 && byte <= 0x9f)
		take_text(s, byte, out);
	else if (g_utf8_validate_len(s->sequence, s->sequence_size, NULL))
		g_string_append_len(out, s->sequence, s->sequence_size);
	else
		g_string_append(out, REPLACEMENT);
}

static void take(VialSanitizer *s, unsigned char byte, GString *out)
{
	switch (s->state) {
	case TEXT:
		take_text(s, byte, out);
		break;
	case ESCAPE:
		take_escape(s, byte);
		break;
	case CSI:
		take_csi(s, byte, out);
		break;
	case STRING:
		if (byte == 0x07 || byte == 0x9c)
			s->state = TEXT;
		else if (byte == 0x1b)
			s->state = STRING_ESCAPE;
		break;
	case STRING_ESCAPE:
		if (byte == '\\')
			s->state = TEXT;
		else
			take_escape(s, byte); /* xterm too: an ESC that is no terminator starts a new sequence */
		break;
	default: /* UTF8_n */
		take_character(s, byte, out);
	}
}

void vial_sanitize(VialSanitizer *sanitizer, const char *bytes, gsize size, GString *out)
{
	for (gsize i = 0; i < size; i++)
		take(sanitizer, (unsigned char)bytes[i], out);
}

void vial_sanitize_end(VialSanitizer *sanitizer, GString *out)
{
	if (sanitizer->state >= UTF8_1)
		g_string_append(out, REPLACEMENT);
	if (sanitizer->has_color)
		g_string_append(out, "\033[0m");
	sanitizer->state = TEXT;
	sanitizer->has_color = FALSE;
}

char *vial_sanitize_line(const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);
	GString *out = g_string_new(NULL);
	VialSanitizer sanitizer = { .drops_color = TRUE };
	vial_sanitize(&sanitizer, valid, strlen(valid), out);
	for (char *c = out->str; *c; c++)
		if ((unsigned char)*c < 0x20)
			*c = ' ';
	return g_string_free(out, FALSE);
}
