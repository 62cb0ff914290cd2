/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict JSON from strangers: parsing with limits, and typed reads of an object's fields whose errors name the field.
 * All errors are VIAL_ERROR_INVALID. Nothing here blocks; any thread.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

/* Deep enough for every body we define, far below where recursive consumers would feel it. */
#define VIAL_JSON_MAX_DEPTH 32

G_DEFINE_AUTOPTR_CLEANUP_FUNC(json_t, json_decref)

/*
 * Refuses duplicate keys, nesting beyond VIAL_JSON_MAX_DEPTH, invalid UTF-8, \u0000, numbers that do not fit, and anything
 * after the value. The error says where. parse() takes any value, parse_object() only an object.
 */
json_t *vial_json_parse(const char *text, gsize size, GError **error);
json_t *vial_json_parse_object(const char *text, gsize size, GError **error);

/* Compact text, freed with g_free(). `value` is borrowed. */
char *vial_json_dump(const json_t *value);
/* The same with everything escaped that is not ASCII: for streams, which clients cut at places of their own. */
char *vial_json_dump_ascii(const json_t *value);

typedef enum {
	VIAL_JSON_OPTIONAL = 0,
	VIAL_JSON_REQUIRED = 1 << 0,
	VIAL_JSON_NONEMPTY = 1 << 1, /* "" is refused */
	VIAL_JSON_NOT_NULL = 1 << 2, /* null is refused: for optional fields whose absence says more than "the default" */
} VialJsonFlags;

/*
 * Each returns FALSE with an error when the field is missing though required, of the wrong type or out of range. An
 * optional field that is absent or null leaves *out as it was: put the default there first. Where leaving a field out
 * means something else than a default (keep what is; decide by the other fields) null is a mistake: VIAL_JSON_NOT_NULL.
 * What comes out is borrowed from `object`.
 */
gboolean vial_json_get_string(const json_t *object, const char *field, unsigned flags, gsize max_bytes, const char **out, GError **error);
gboolean vial_json_get_int(const json_t *object, const char *field, unsigned flags, gint64 min, gint64 max, gint64 *out, GError **error);
gboolean vial_json_get_double(const json_t *object, const char *field, unsigned flags, double min, double max, double *out, GError **error);
gboolean vial_json_get_bool(const json_t *object, const char *field, unsigned flags, gboolean *out, GError **error);
gboolean vial_json_get_object(const json_t *object, const char *field, unsigned flags, json_t **out, GError **error);
/* `choices` is NULL-terminated; *out is the index of the one that was named. */
gboolean vial_json_get_choice(const json_t *object, const char *field, unsigned flags, const char *const *choices, int *out, GError **error);
/* An object whose values are all strings (environment, metadata). */
gboolean vial_json_get_string_map(const json_t *object, const char *field, unsigned flags, gsize max_pairs, gsize max_key_bytes,
                                  gsize max_value_bytes, json_t **out, GError **error);
/* An array whose elements are all strings (argv, domain lists). */
gboolean vial_json_get_string_array(const json_t *object, const char *field, unsigned flags, gsize max_items, gsize max_item_bytes, json_t **out,
                                    GError **error);
