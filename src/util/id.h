/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifiers and secrets from the kernel's random source. Ids are VIAL_ID_LENGTH characters of [a-z0-9] (103 bits): they
 * become host names, so no dash and no capitals. Any thread.
 */
#pragma once

#include <glib.h>

#define VIAL_ID_LENGTH 20

/* `out` receives the id and a terminating NUL. */
void vial_id_fill(char out[VIAL_ID_LENGTH + 1]);
char *vial_id_new(void);
gboolean vial_id_is_valid(const char *text);

/* `prefix` followed by `length` hexadecimal digits, each with equal chance. */
char *vial_secret_new(const char *prefix, gsize length);
