/* SPDX-License-Identifier: Apache-2.0 */
/* Put in front of src/auth/oidc_source.c and oidc_fetch.c for oidc-driver-timed: their times are what a test says in the environment, else the usual
 * ones. */
#pragma once

#include <glib.h>

static inline gint64 oidc_test_ms(const char *name, gint64 usual)
{
	const char *text = g_getenv(name);

	return text ? g_ascii_strtoll(text, NULL, 10) : usual;
}

#define VIAL_OIDC_REFRESH_MS (guint) oidc_test_ms("OIDC_REFRESH_MS", 3600 * 1000)
#define VIAL_OIDC_KEEP_MS oidc_test_ms("OIDC_KEEP_MS", 24 * 3600 * 1000)
#define VIAL_OIDC_FETCH_PAUSE_MS oidc_test_ms("OIDC_FETCH_PAUSE_MS", 10 * 1000)
#define VIAL_OIDC_FETCH_MS oidc_test_ms("OIDC_FETCH_MS", 5 * 1000)
#define VIAL_OIDC_CONNECT_MS oidc_test_ms("OIDC_FETCH_MS", 3 * 1000)
