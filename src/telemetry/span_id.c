/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/span_id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "telemetry/otlp.h"

gboolean vial_trace_hex_is_valid(const char *text, gsize length)
{
	gboolean is_zero = TRUE;

	if (!text)
		return FALSE;
	for (gsize i = 0; i < length; i++) {
		if (!g_ascii_isdigit(text[i]) && (text[i] < 'a' || text[i] > 'f'))
			return FALSE;
		is_zero = is_zero && text[i] == '0';
	}
	return text[length] == '\0' && !is_zero;
}

static void fill(char *out, gsize length)
{
	static const char digits[] = "0123456789abcdef";
	guint8 bytes[VIAL_TRACE_ID_LENGTH / 2];

	do {
		/* Up to 256 bytes come whole and without EINTR once the kernel has any randomness at all. */
		if (getrandom(bytes, length / 2, 0) != (ssize_t)(length / 2))
			g_error("getrandom: %s", g_strerror(errno));
		for (gsize i = 0; i < length; i++)
			out[i] = digits[i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4];
		out[length] = '\0';
	} while (!vial_trace_hex_is_valid(out, length));
}

void vial_span_id_fill(char out[17])
{
	fill(out, VIAL_SPAN_ID_LENGTH);
}

void vial_trace_id_fill(char out[33])
{
	fill(out, VIAL_TRACE_ID_LENGTH);
}
