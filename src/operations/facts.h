/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of this folder: what records say, in the same words for all of them. `body` may be NULL: then nothing is done. */
#pragma once

#include <glib.h>
#include <jansson.h>

/* The value under that name, unless it is NULL. */
void vial_facts_copy(json_t *body, const char *name, json_t *value);
/* An environment may hold secrets: only its names are recorded. */
void vial_facts_env(json_t *body, json_t *env);
/* Files that a run touched, [{path, size, sha256?, deleted?}], as far as a record has room for them; and how many more there were. */
void vial_facts_files(json_t *body, const json_t *files, gboolean is_truncated);
