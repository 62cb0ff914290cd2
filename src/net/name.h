/* SPDX-License-Identifier: Apache-2.0 */
/* Domain names in the one form that rules are compared in. Any thread. */
#pragma once

#include <glib.h>

#define VIAL_NAME_MAX 253
#define VIAL_NAME_LABEL_MAX 63

/*
 * Lower case, IDN to punycode, one trailing dot removed. NULL unless every label is 1-63 of [a-z0-9_-] without a hyphen
 * at its ends, the whole at most 253, and the last label not a number (which would be an address in disguise).
 */
char *vial_name_normalize(const char *text);

/* Is `name` a proper sub-domain of `domain`? Compares at label boundaries; both normalised. */
gboolean vial_name_is_below(const char *name, const char *domain);
