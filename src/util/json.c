/* SPDX-License-Identifier: Apache-2.0 */
#include "util/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"

/*
 * jansson's own limit is 2048 levels and fixed when it is compiled. A scan for brackets outside strings gives ours and
 * costs far less than the parse; it need not judge validity, the parser does.
 */
static gboolean depth_is_acceptable(const char *text, gsize size, GError **error)
{
	gsize depth = 0;
	gboolean in_string = FALSE;

	for (gsize i = 0; i < size; i++) {
		char c = text[i];
		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = FALSE;
		} else if (c == '"') {
			in_string = TRUE;
		} else if (c == '{' || c == '[') {
			if (++depth > VIAL_JSON_MAX_DEPTH)
				return vial_fail(error, VIAL_ERROR_INVALID, "the JSON is nested deeper than %d levels (at byte %" G_GSIZE_FORMAT ")",
				                 VIAL_JSON_MAX_DEPTH, i);
		} else if ((c == '}' || c == ']') && depth > 0) {
			depth--;
		}
	}
	return TRUE;
}

json_t *vial_json_parse(const char *text, gsize size, GError **error)
{
	json_error_t problem;

	if (!depth_is_acceptable(text, size, error))
		return NULL;
	json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
	if (!value) {
		/* jansson quotes a piece of the input in its text; it is the client's own and goes back only to it. */
		g_autofree char *reason = g_utf8_make_valid(problem.text, -1);
		vial_fail(error, VIAL_ERROR_INVALID, "the JSON is not valid: %s (line %d, column %d)", reason, problem.line, problem.column);
	}
	return value;
}

json_t *vial_json_parse_object(const char *text, gsize size, GError **error)
{
	g_autoptr(json_t) value = vial_json_parse(text, size, error);

	if (value && !json_is_object(value)) {
		vial_fail(error, VIAL_ERROR_INVALID, "the JSON must be an object, like {\"name\": \"value\"}");
		return NULL;
	}
	return g_steal_pointer(&value);
}

static char *dump(const json_t *value, size_t flags)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | flags);

	/* json_dumps fails only on strings that are not UTF-8, and jansson lets nobody make one. */
	g_assert(text != NULL);
	return text; /* g_free() is free() since GLib 2.46 */
}

char *vial_json_dump(const json_t *value)
{
	return dump(value, 0);
}

char *vial_json_dump_ascii(const json_t *value)
{
	return dump(value, JSON_ENSURE_ASCII);
}

/* Finds a field. Absent or null: *out_value is NULL, and the result says whether that is acceptable. */
static gboolean find_field(const json_t *object, const char *field, unsigned flags, json_t **out_value, GError **error)
{
	json_t *value = json_object_get(object, field);

	*out_value = json_is_null(value) ? NULL : value;
	if (json_is_null(value) && (flags & VIAL_JSON_NOT_NULL))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must not be null: give a value or leave it out", field);
	if (!*out_value && (flags & VIAL_JSON_REQUIRED))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" is required", field);
	return TRUE;
}

static gboolean check_string(const json_t *value, const char *field, unsigned flags, gsize max_bytes, GError **error)
{
	if (!json_is_string(value))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be a string", field);
	gsize length = json_string_length(value);
	if (length > max_bytes)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" is too long: at most %" G_GSIZE_FORMAT " bytes", field, max_bytes);
	if (length == 0 && (flags & VIAL_JSON_NONEMPTY))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must not be empty", field);
	return TRUE;
}

gboolean vial_json_get_string(const json_t *object, const char *field, unsigned flags, gsize max_bytes, const char **out, GError **error)
{
	json_t *value;

	if (!find_field(object, field, flags, &value, error))
		return FALSE;
	if (!value)
		return TRUE;
	if (!check_string(value, field, flags, max_bytes, error))
		return FALSE;
	*out = json_string_value(value);
	return TRUE;
}

gboolean vial_json_get_int(const json_t *object, const char *field, unsigned flags, gint64 min, gint64 max, gint64 *out, GError **error)
{
	json_t *value;
	gint64 number;

	if (!find_field(object, field, flags, &value, error))
		return FALSE;
	if (!value)
		return TRUE;
	if (json_is_integer(value)) {
		number = json_integer_value(value);
	} else if (json_is_real(value) && json_real_value(value) == floor(json_real_value(value)) &&
	           fabs(json_real_value(value)) <= 9007199254740992.0) {
		/* JavaScript and PHP clients write 60.0 or 6e1 for 60; up to 2^53 the double is exact. */
		number = (gint64)json_real_value(value);
	} else {
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be an integer", field);
	}
	if (number < min || number > max)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, field, min,
		                 max);
	*out = number;
	return TRUE;
}

gboolean vial_json_get_double(const json_t *object, const char *field, unsigned flags, double min, double max, double *out, GError **error)
{
	json_t *value;

	if (!find_field(object, field, flags, &value, error))
		return FALSE;
	if (!value)
		return TRUE;
	if (!json_is_number(value))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be a number", field);
	double number = json_number_value(value);
	if (!(number >= min && number <= max))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be between %g and %g", field, min, max);
	*out = number;
	return TRUE;
}

gboolean vial_json_get_bool(const json_t *object, const char *field, unsigned flags, gboolean *out, GError **error)
{
	json_t *value;

	if (!find_field(object, field, flags, &value, error))
		return FALSE;
	if (!value)
		return TRUE;
	if (!json_is_boolean(value))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be true or false", field);
	*out = json_is_true(value);
	return TRUE;
}

gboolean vial_json_get_object(const json_t *object, const char *field, unsigned flags, json_t **out, GError **error)
{
	json_t *value;

	if (!find_field(object, field, flags, &value, error))
		return FALSE;
	if (!value)
		return TRUE;
	if (!json_is_object(value))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be an object", field);
	*out = value;
	return TRUE;
}

gboolean vial_json_get_choice(const json_t *object, const char *field, unsigned flags, const char *const *choices, int *out, GError **error)
{
	json_t *value;

	if (!find_field(object, field, flags, &value, error))
		return FALSE;
	if (!value)
		return TRUE;
	const char *text = json_string_value(value);
	for (int i = 0; text && choices[i]; i++) {
		if (strcmp(text, choices[i]) == 0) {
			*out = i;
			return TRUE;
		}
	}
	g_autofree char *list = g_strjoinv(", ", (char **)choices);
	return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be one of: %s", field, list);
}

gboolean vial_json_get_string_map(const json_t *object, const char *field, unsigned flags, gsize max_pairs, gsize max_key_bytes,
                                  gsize max_value_bytes, json_t **out, GError **error)
{
	json_t *map = NULL, *value;
	const char *key;

	if (!vial_json_get_object(object, field, flags, &map, error))
		return FALSE;
	if (!map)
		return TRUE;
	if (json_object_size(map) > max_pairs)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" has too many entries: at most %" G_GSIZE_FORMAT, field, max_pairs);
	json_object_foreach (map, key, value) {
		gsize key_bytes = strlen(key);
		if (key_bytes == 0 || key_bytes > max_key_bytes)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\": a name must have 1 to %" G_GSIZE_FORMAT " bytes", field,
			                 max_key_bytes);
		g_autofree char *path = g_strdup_printf("%s.%s", field, key);
		if (!check_string(value, path, 0, max_value_bytes, error))
			return FALSE;
	}
	*out = map;
	return TRUE;
}

gboolean vial_json_get_string_array(const json_t *object, const char *field, unsigned flags, gsize max_items, gsize max_item_bytes, json_t **out,
                                    GError **error)
{
	json_t *array, *value;
	gsize i;

	if (!find_field(object, field, flags, &array, error))
		return FALSE;
	if (!array)
		return TRUE;
	if (!json_is_array(array))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be an array of strings", field);
	if (json_array_size(array) > max_items)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" has too many elements: at most %" G_GSIZE_FORMAT, field, max_items);
	if (json_array_size(array) == 0 && (flags & VIAL_JSON_NONEMPTY))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must not be empty", field);
	json_array_foreach (array, i, value) {
		g_autofree char *path = g_strdup_printf("%s[%" G_GSIZE_FORMAT "]", field, i);
		if (!check_string(value, path, 0, max_item_bytes, error))
			return FALSE;
	}
	*out = array;
	return TRUE;
}
