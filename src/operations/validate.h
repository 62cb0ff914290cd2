/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of requests, judged in one place: each function names the field in its error (VIAL_ERROR_INVALID), in the same words for
 * every surface. Limits are limits.h's.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

/* "" is refused, NULL is not: the field was left out. */
gboolean vial_check_text(const char *field, const char *text, gsize max_bytes, GError **error);
/* One line for people to read, in lists and in sentences. */
gboolean vial_check_label(const char *field, const char *text, gsize max_bytes, GError **error);
gboolean vial_check_required(const char *field, const char *text, gsize max_bytes, GError **error);
gboolean vial_check_path(const char *field, const char *path, GError **error); /* required */
gboolean vial_check_user(const char *user, GError **error);
/* Numbers: VIAL_UNSAID is fine, except where one is required. */
gboolean vial_check_int(const char *field, gint64 value, gint64 min, gint64 max, GError **error);
gboolean vial_check_required_int(const char *field, gint64 value, gint64 min, gint64 max, GError **error);
gboolean vial_check_real(const char *field, double value, double min, double max, GError **error);
/*
 * A size by its tier's name, or in numbers, which are set from the tier; both at once only when they say the same.
 */
gboolean vial_check_size(const char *tier, double *cpu, gint64 *memory_mb, GError **error);
/* *out is the index of the choice that was named (NULL-terminated), or -1 for NULL. */
gboolean vial_check_choice(const char *field, const char *text, const char *const *choices, int *out, GError **error);
/* Objects of strings; NULL is fine. */
gboolean vial_check_metadata(json_t *metadata, GError **error);
gboolean vial_check_env(json_t *env, GError **error);
/* A list of words, not NULL. */
gboolean vial_check_argv(json_t *argv, GError **error);
