/* SPDX-License-Identifier: Apache-2.0 */
/* The event stream format of the HTML standard, section 9.2.6: lines end with LF, CRLF or CR; a blank line sends the event. */
#include "cli/sse.h"

#include <string.h>

#include "cli/http.h"

struct VialSse {
	VialSseFunc func;
	gpointer user;
	GString *line, *event, *data;
	gboolean has_data;
	gboolean had_cr; /* an LF that follows belongs to the line just ended */
};

VialSse *vial_sse_new(VialSseFunc func, gpointer user)
{
	VialSse *sse = g_new0(VialSse, 1);
	sse->func = func;
	sse->user = user;
	sse->line = g_string_new(NULL);
	sse->event = g_string_new(NULL);
	sse->data = g_string_new(NULL);
	return sse;
}

void vial_sse_free(VialSse *sse)
{
	if (!sse)
		return;
	g_string_free(sse->line, TRUE);
	g_string_free(sse->event, TRUE);
	g_string_free(sse->data, TRUE);
	g_free(sse);
}

static gboolean dispatch(VialSse *sse, GError **error)
{
	gboolean is_ok = TRUE;
	if (sse->has_data)
		is_ok = sse->func(sse->event->len ? sse->event->str : "message", sse->data->str, sse->data->len, sse->user, error);
	g_string_truncate(sse->event, 0);
	g_string_truncate(sse->data, 0);
	sse->has_data = FALSE;
	return is_ok;
}

static void take_field(VialSse *sse)
{
	char *colon = memchr(sse->line->str, ':', sse->line->len);
	gsize name_size = colon ? (gsize)(colon - sse->line->str) : sse->line->len;
	const char *value = colon ? colon + 1 : "";
	gsize value_size = colon ? sse->line->len - name_size - 1 : 0;
	if (value_size && *value == ' ')
		value++, value_size--;
	if (name_size == 4 && memcmp(sse->line->str, "data", 4) == 0) {
		if (sse->has_data)
			g_string_append_c(sse->data, '\n');
		g_string_append_len(sse->data, value, (gssize)value_size);
		sse->has_data = TRUE;
	} else if (name_size == 5 && memcmp(sse->line->str, "event", 5) == 0) {
		g_string_truncate(sse->event, 0);
		g_string_append_len(sse->event, value, (gssize)value_size);
	} /* a comment (no name), id and retry mean nothing to us */
}

static gboolean take_line(VialSse *sse, GError **error)
{
	gboolean is_ok = TRUE;
	if (sse->line->len == 0)
		is_ok = dispatch(sse, error);
	else
		take_field(sse);
	g_string_truncate(sse->line, 0);
	return is_ok;
}

gboolean vial_sse_feed(VialSse *sse, const void *bytes, gsize size, GError **error)
{
	const char *at = bytes, *end = at + size;
	while (at < end) {
		if (sse->had_cr && *at == '\n') {
			sse->had_cr = FALSE;
			at++;
			continue;
		}
		sse->had_cr = FALSE;
		const char *stop = at;
		while (stop < end && *stop != '\n' && *stop != '\r')
			stop++;
		g_string_append_len(sse->line, at, stop - at);
		if (sse->line->len + sse->data->len > VIAL_SSE_EVENT_MAX) {
			g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "an event of the answer is larger than %d MiB",
			            VIAL_SSE_EVENT_MAX >> 20);
			return FALSE;
		}
		if (stop == end)
			break;
		sse->had_cr = *stop == '\r';
		at = stop + 1;
		if (!take_line(sse, error))
			return FALSE;
	}
	return TRUE;
}
