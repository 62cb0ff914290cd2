/* SPDX-License-Identifier: Apache-2.0 */
#include "util/time.h"

#include <time.h>

static guint scale = 1;

void vial_time_set_scale(guint wanted)
{
	scale = MAX(wanted, 1);
}

guint vial_time_scale(void)
{
	return scale;
}

guint vial_time_scaled_ms(guint usual_ms)
{
	return usual_ms * scale;
}

guint vial_time_add_deadline(guint usual_ms, GSourceFunc fn, gpointer data)
{
	return g_timeout_add_full(G_PRIORITY_LOW, vial_time_scaled_ms(usual_ms), fn, data, NULL);
}

gint64 vial_time_now_ms(void)
{
	return g_get_real_time() / 1000;
}

gint64 vial_time_monotonic_ms(void)
{
	return g_get_monotonic_time() / 1000;
}

void vial_time_fill(char out[VIAL_TIME_TEXT_SIZE], gint64 time_ms)
{
	gint64 seconds = time_ms / 1000, rest = time_ms % 1000;
	struct tm tm;

	if (rest < 0) {
		rest += 1000;
		seconds--;
	}
	time_t clock = (time_t)seconds;
	if (!gmtime_r(&clock, &tm))
		gmtime_r(&(time_t){ 0 }, &tm);
	g_snprintf(out, VIAL_TIME_TEXT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
	           tm.tm_min, tm.tm_sec, (int)rest);
}

char *vial_time_format(gint64 time_ms)
{
	char text[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(text, time_ms);
	return g_strdup(text);
}

gboolean vial_time_parse(const char *text, gint64 *out_ms)
{
	g_autoptr(GTimeZone) utc = g_time_zone_new_utc();
	g_autoptr(GDateTime) time = g_date_time_new_from_iso8601(text, utc);

	if (!time)
		return FALSE;
	*out_ms = g_date_time_to_unix(time) * 1000 + g_date_time_get_microsecond(time) / 1000;
	return TRUE;
}
