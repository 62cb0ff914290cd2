/* SPDX-License-Identifier: Apache-2.0 */
#include "http/trace.h"

#include <string.h>

#define FLAGS_LENGTH 2

/* Exactly `length` lower-case hexadecimal digits, and what follows them. NULL if it is otherwise. */
static const char *skip_digits(const char *text, gsize length, char end)
{
	return strspn(text, "0123456789abcdef") == length && text[length] == end ? text + length + 1 : NULL;
}

static gboolean is_zero(const char *digits, gsize length)
{
	return strspn(digits, "0") >= length;
}

gboolean vial_trace_parse(const char *text, VialTrace *out)
{
	if (strncmp(text, "00-", 3) != 0)
		return FALSE;
	const char *trace_id = text + 3;
	const char *span = skip_digits(trace_id, VIAL_TRACE_ID_LENGTH, '-');
	const char *flags = span ? skip_digits(span, VIAL_TRACE_SPAN_LENGTH, '-') : NULL;
	if (!flags || !skip_digits(flags, FLAGS_LENGTH, '\0') || is_zero(trace_id, VIAL_TRACE_ID_LENGTH) || is_zero(span, VIAL_TRACE_SPAN_LENGTH))
		return FALSE;
	g_strlcpy(out->trace_id, trace_id, sizeof(out->trace_id));
	g_strlcpy(out->parent_span, span, sizeof(out->parent_span));
	return TRUE;
}
