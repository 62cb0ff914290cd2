/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that must not be seen in what a build prints. What is covered by them, alone or overlapping each other, becomes one [redacted]. Text is
 * bytes with a size: a NUL hides nothing behind it.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

/* A shorter secret would blot out half of every line; it is refused. */
#define VIAL_BUILD_SECRET_MIN_BYTES 6
/* All that is printed is searched for each of them. */
#define VIAL_BUILD_SECRET_LINES_MAX 512

typedef struct VialBuildSecrets VialBuildSecrets;

VialBuildSecrets *vial_build_secrets_new(void);
void vial_build_secrets_free(VialBuildSecrets *secrets);
/* Names to values. A key file is printed line by line, and each of its lines is a secret. */
void vial_build_secrets_add(VialBuildSecrets *secrets, json_t *values);
/* How many lines: no more than VIAL_BUILD_SECRET_LINES_MAX may be added. */
guint vial_build_secrets_count(json_t *values);
void vial_build_secrets_forget(VialBuildSecrets *secrets);
/* The size of the longest; 0: there are none. Never a line end within one. */
gsize vial_build_secrets_longest(const VialBuildSecrets *secrets);
/* A mark for each byte of the text: not 0 where it is of a secret, as its first `covered` bytes are in any case. NULL: nothing is marked. Free it. */
guint8 *vial_build_secrets_mark(const VialBuildSecrets *secrets, const char *text, gsize size, gsize covered);
/* The text with [redacted] for every run of marks; one at its beginning was told already if `goes_on`. New. */
GString *vial_build_secrets_hide(const char *text, gsize size, const guint8 *marks, gboolean goes_on);
/* Both for a whole text. Free it. */
char *vial_build_secrets_clean(const VialBuildSecrets *secrets, const char *text);
