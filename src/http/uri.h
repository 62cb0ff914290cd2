/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-decoding and query strings, strict: no NUL, no broken escapes, only UTF-8. */
#pragma once

#include <glib.h>

#include "util/arena.h"

/* More pairs than any route defines; an endless query is somebody probing. */
#define VIAL_QUERY_MAX_PAIRS 64

typedef struct {
	const char *name;
	const char *value;
} VialPair;

/* The decoded, NUL-terminated text, or NULL when it must be refused. `plus_is_space` is for query strings. */
char *vial_uri_decode(VialArena *arena, const char *text, gsize size, gboolean plus_is_space);

/* "a=1&b=2" into pairs, in order. FALSE with VIAL_ERROR_INVALID. */
gboolean vial_query_parse(VialArena *arena, const char *text, VialPair **out_pairs, gsize *out_count, GError **error);
/* The same of a body that is application/x-www-form-urlencoded. */
gboolean vial_form_parse(VialArena *arena, GBytes *body, VialPair **out_pairs, gsize *out_count, GError **error);
