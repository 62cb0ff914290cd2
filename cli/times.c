/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/times.h"

#include <string.h>

#include "cli/options.h"
#include "cli/output.h"

static char *to_utc(GDateTime *time)
{
	g_autoptr(GDateTime) utc = g_date_time_to_utc(time);
	g_autofree char *text = utc ? g_date_time_format(utc, "%Y-%m-%dT%H:%M:%S") : NULL;
	/* The API's times are in milliseconds: one that was copied from an answer means that very moment. */
	int milliseconds = text ? g_date_time_get_microsecond(utc) / 1000 : 0;
	if (!text || milliseconds == 0)
		return text ? g_strconcat(text, "Z", NULL) : NULL;
	return g_strdup_printf("%s.%03dZ", text, milliseconds);
}

/* NULL where the calendar ends. */
static GDateTime *from_now(gint64 seconds)
{
	g_autoptr(GDateTime) now = g_date_time_new_now_utc();
	return ABS(seconds) < (gint64)10000 * 366 * 86400 ? g_date_time_add_seconds(now, (double)seconds) : NULL;
}

static GDateTime *parse(const char *text, gboolean is_ahead)
{
	gint64 seconds;
	g_autoptr(GTimeZone) utc = g_time_zone_new_utc();
	if (strlen(text) == strlen("YYYY-MM-DD")) {
		g_autofree char *midnight = g_strconcat(text, "T00:00:00Z", NULL);
		return g_date_time_new_from_iso8601(midnight, NULL);
	}
	/* A bare number would be seconds, and is more likely a year or a mistake. */
	if (!g_ascii_isdigit(text[strlen(text) - 1]) && vial_options_parse_duration(text, &seconds))
		return from_now(is_ahead ? seconds : -seconds);
	return strchr(text, 'T') || strchr(text, 't') || strchr(text, ' ') ? g_date_time_new_from_iso8601(text, utc) : NULL;
}

char *vial_time_from_option(const char *option, const char *text, gboolean is_ahead, GError **error)
{
	g_autoptr(GDateTime) time = *text ? parse(text, is_ahead) : NULL;
	char *utc = time ? to_utc(time) : NULL;
	if (!utc)
		g_set_error(error, VIAL_OPTIONS_ERROR, 0,
		            "--%s wants a time such as 2026-11-18T08:00:00Z, a day such as 2026-11-18, or %s, not \"%s\"", option,
		            is_ahead ? "90d for in 90 days" : "2h for two hours ago", text);
	return utc;
}

char *vial_time_day_from_option(const char *option, const char *text, GError **error)
{
	g_autoptr(GDateTime) time = *text && !strchr(text, 'T') && !strchr(text, ' ') ? parse(text, FALSE) : NULL;
	g_autofree char *utc = time ? to_utc(time) : NULL;
	if (!utc)
		g_set_error(error, VIAL_OPTIONS_ERROR, 0, "--%s wants a day such as 2026-11-18, or 30d for 30 days ago, not \"%s\"", option, text);
	return utc ? g_strndup(utc, strlen("YYYY-MM-DD")) : NULL;
}

char *vial_time_local(const char *rfc3339)
{
	g_autoptr(GDateTime) time = rfc3339 ? g_date_time_new_from_iso8601(rfc3339, NULL) : NULL;
	g_autoptr(GDateTime) local = time ? g_date_time_to_local(time) : NULL;
	return local ? g_date_time_format(local, "%Y-%m-%d %H:%M:%S") : g_strdup(rfc3339 ? rfc3339 : "");
}

char *vial_time_distance(const char *rfc3339)
{
	gint64 time = vial_output_time(rfc3339);
	if (time < 0)
		return NULL;
	gint64 distance = time - g_get_real_time() / G_USEC_PER_SEC;
	g_autofree char *shown = vial_output_duration(ABS(distance));
	return g_strdup_printf(distance > 0 ? "in %s" : "%s ago", shown);
}
