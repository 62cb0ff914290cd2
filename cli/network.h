/* SPDX-License-Identifier: Apache-2.0 */
/* A network policy from options, as `create` and `net set` send it. */
#pragma once

#include <glib.h>
#include <jansson.h>

/* -1 is "not given": 0 goes to viald, which says what is wrong with it. */
#define VIAL_NETWORK_LIMIT_OPTIONS(rate_mbit, max_connections, prefix)                                                         \
	{ 0, "rate-mbit", VIAL_OPTION_INT, &(rate_mbit), "N", prefix "at most N Mbit/s each way", NULL },                      \
	{                                                                                                                      \
		0, "max-connections", VIAL_OPTION_INT, &(max_connections), "N", prefix "at most N connections at a time", NULL \
	}

/* Lists may be NULL. A new reference. */
json_t *vial_network_json(const char *mode, const GPtrArray *allow, const GPtrArray *deny, gint64 rate_mbit, gint64 max_connections);
