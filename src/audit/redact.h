/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets that must not get into a record: those that the operator names in a file (audit_secrets_file), one a line, as they are or as /pattern/ (a
 * regular expression), and keys of our own in all their forms. What matches becomes [redacted], before anything is hashed or written. Any thread.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef struct VialRedactor VialRedactor;

/* `path` "": only our own keys. An error names the line. */
VialRedactor *vial_redactor_new(const char *path, GError **error);
void vial_redactor_free(VialRedactor *redactor); /* accepts NULL */
/* The text without them; NULL: it has none. Free it. */
char *vial_redact_text(const VialRedactor *redactor, const char *text, gsize size);
/* Every text in it, at any depth, names of fields excepted. */
void vial_redact(const VialRedactor *redactor, json_t *json);
