/* SPDX-License-Identifier: Apache-2.0 */
#include "net/httpfield.h"

#include <string.h>

gboolean vial_http_field_split(const char *line, gsize length, VialHttpField *out)
{
	const char *colon = memchr(line, ':', length);
	VialHttpField field = { .name = line };

	/* A folded line or a space before the colon is read differently by different servers. */
	if (!colon || colon == line || line[0] == ' ' || line[0] == '\t')
		return FALSE;
	field.name_length = (gsize)(colon - line);
	for (gsize i = 0; i < field.name_length; i++)
		if (!g_ascii_isgraph(line[i]))
			return FALSE;
	field.value = colon + 1;
	field.value_length = length - field.name_length - 1;
	while (field.value_length && (*field.value == ' ' || *field.value == '\t')) {
		field.value++;
		field.value_length--;
	}
	while (field.value_length && (field.value[field.value_length - 1] == ' ' || field.value[field.value_length - 1] == '\t'))
		field.value_length--;
	*out = field;
	return TRUE;
}

static gboolean is_text(const char *text, gsize length, const char *expected)
{
	return strlen(expected) == length && g_ascii_strncasecmp(text, expected, length) == 0;
}

gboolean vial_http_field_is(const VialHttpField *field, const char *name)
{
	return is_text(field->name, field->name_length, name);
}

gboolean vial_http_field_has_value(const VialHttpField *field, const char *value)
{
	return is_text(field->value, field->value_length, value);
}

static gboolean take_length(VialHttpFraming *framing, const VialHttpField *field)
{
	g_autofree char *text = g_strndup(field->value, field->value_length);
	guint64 number;

	if (!g_ascii_isdigit(text[0]) || !g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT64, &number, NULL))
		return FALSE;
	if (framing->has_length && framing->length != number)
		return FALSE;
	framing->has_length = TRUE;
	framing->length = number;
	return TRUE;
}

gboolean vial_http_framing_take(VialHttpFraming *framing, const VialHttpField *field)
{
	if (vial_http_field_is(field, "content-length"))
		return take_length(framing, field);
	if (vial_http_field_is(field, "transfer-encoding")) {
		if (framing->is_chunked || !vial_http_field_has_value(field, "chunked"))
			return FALSE;
		framing->is_chunked = TRUE;
	}
	return TRUE;
}

gssize vial_http_line(const char *text, gsize size, const char **out_next)
{
	const char *end = memchr(text, '\n', size);
	gsize length = (gsize)(end - text);

	/* CR LF only: a bare LF ends a line for some servers and not for others. */
	if (length == 0 || text[length - 1] != '\r' || memchr(text, '\r', length - 1) || memchr(text, 0, length))
		return -1;
	*out_next = end + 1;
	return (gssize)length - 1;
}

gssize vial_http_chunk_line(const guint8 *data, gsize available, guint64 *out_size)
{
	const guint8 *end = available ? memchr(data, '\n', available) : NULL;
	gsize digits = 0;
	guint64 size = 0;

	if (!end)
		return available > VIAL_HTTP_MAX_CHUNK_LINE ? -1 : 0;
	if (end == data || end[-1] != '\r' || end - data > VIAL_HTTP_MAX_CHUNK_LINE)
		return -1;
	while (g_ascii_isxdigit(data[digits]) && digits < 16)
		size = size << 4 | (guint64)g_ascii_xdigit_value((char)data[digits++]);
	if (digits == 0 || digits > 15 || (data[digits] != '\r' && data[digits] != ';' && data[digits] != ' '))
		return -1;
	*out_size = size;
	return end + 1 - data;
}

gsize vial_http_head_end(const guint8 *data, gsize size, gsize *scanned)
{
	for (gsize i = *scanned; i + 1 < size; i++) {
		if (data[i] != '\n')
			continue;
		if (data[i + 1] == '\n')
			return i + 2;
		if (i + 2 < size && data[i + 1] == '\r' && data[i + 2] == '\n')
			return i + 3;
	}
	*scanned = size > 3 ? size - 3 : 0;
	return 0;
}
