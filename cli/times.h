/* SPDX-License-Identifier: Apache-2.0 */
/* Times as people write and read them. */
#pragma once

#include <glib.h>

/*
 * "2026-11-18T08:00:00Z" (or with an offset), "2026-11-18" (its beginning, UTC), or a duration: "2h" is two hours ago, or from now with `is_ahead`.
 * As the API wants it, in UTC; NULL with *error, which names `option`. To be freed.
 */
char *vial_time_from_option(const char *option, const char *text, gboolean is_ahead, GError **error);
/* The same for a day: "2026-11-18" or "30d" ago. */
char *vial_time_day_from_option(const char *option, const char *text, GError **error);

/* "2026-11-18 09:00:00" in our own time zone; what is no time as it is, "" when NULL. To be freed. */
char *vial_time_local(const char *rfc3339);
/* "in 3d 4h", "5m ago"; NULL when it is no time. To be freed. */
char *vial_time_distance(const char *rfc3339);
