/* SPDX-License-Identifier: Apache-2.0 */
#include "util/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* How many bytes the character that starts with `lead` has; 0 if none starts so. */
static guint sequence_length(guint8 lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead <= 0xdf)
		return 2;
	if (lead >= 0xe0 && lead <= 0xef)
		return 3;
	if (lead >= 0xf0 && lead <= 0xf4)
		return 4;
	return 0;
}

/* The length of an unfinished but so far possible character at the end of the bytes; 0 if they end cleanly. */
static gsize unfinished_tail(const guint8 *bytes, gsize size)
{
	for (gsize back = 1; back <= 3 && back <= size; back++) {
		guint8 byte = bytes[size - back];

		if ((byte & 0xc0) == 0x80)
			continue;
		return sequence_length(byte) > back ? back : 0;
	}
	return 0;
}

static void append_valid(const char *bytes, gsize size, GString *out)
{
	while (size > 0) {
		const char *end;
		gsize good;

		/* NUL is a valid character for us (JSON has \u0000) but ends the validator's run. */
		g_utf8_validate_len(bytes, size, &end);
		good = (gsize)(end - bytes);
		g_string_append_len(out, bytes, (gssize)good);
		bytes += good;
		size -= good;
		if (size == 0)
			return;
		if (*bytes == '\0')
			g_string_append_c(out, '\0');
		else
			g_string_append(out, REPLACEMENT);
		bytes++;
		size--;
	}
}

void vial_utf8_feed(VialUtf8 *state, const void *bytes, gsize size, GString *out)
{
	const guint8 *next = bytes;
	gsize tail;

	while (state->n_pending > 0 && size > 0) {
		gboolean continues = (*next & 0xc0) == 0x80;

		if (continues) {
			state->pending[state->n_pending++] = *next++;
			size--;
		}
		if (!continues || state->n_pending == sequence_length(state->pending[0])) {
			append_valid((const char *)state->pending, state->n_pending, out);
			state->n_pending = 0;
		}
	}
	if (size == 0)
		return;
	tail = unfinished_tail(next, size);
	append_valid((const char *)next, size - tail, out);
	memcpy(state->pending, next + size - tail, tail);
	state->n_pending = (guint)tail;
}

void vial_utf8_finish(VialUtf8 *state, GString *out)
{
	if (state->n_pending > 0)
		g_string_append(out, REPLACEMENT);
	state->n_pending = 0;
}

void vial_output_init(VialOutput *output, gsize limit_bytes)
{
	*output = (VialOutput){ .text = g_string_new(NULL), .limit_bytes = limit_bytes };
}

void vial_output_clear(VialOutput *output)
{
	if (output->text)
		g_string_free(output->text, TRUE);
	output->text = NULL;
}

void vial_output_add(VialOutput *output, const void *bytes, gsize size)
{
	gsize room = output->text->len < output->limit_bytes ? output->limit_bytes - output->text->len : 0;

	if (size > room) {
		output->is_truncated = TRUE;
		size = room;
	}
	if (size > 0)
		vial_utf8_feed(&output->utf8, bytes, size, output->text);
}

void vial_output_finish(VialOutput *output)
{
	/* Cut by the limit in the middle of a character: dropped rather than shown as broken. */
	if (!output->is_truncated)
		vial_utf8_finish(&output->utf8, output->text);
}
