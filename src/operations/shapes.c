/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/shapes.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

static gboolean is_token(const char *text)
{
	for (; *text; text++)
		if (*text < 0x21 || *text > 0x7e)
			return FALSE;
	return TRUE;
}

static gboolean wrong(const VialShapeField *field, const char *what, GError **error)
{
	return vial_fail(error, VIAL_ERROR_GATEWAY, "field \"%s\" %s", field->name, what);
}

static gboolean check_text(const VialShapeField *field, const json_t *value, GError **error)
{
	if (!json_is_string(value))
		return wrong(field, "is not a text", error);
	if (json_string_length(value) > (gsize)field->max)
		return wrong(field, "is too long", error);
	if (field->type == VIAL_SHAPE_TOKEN && !is_token(json_string_value(value)))
		return wrong(field, "has characters that it cannot have", error);
	return TRUE;
}

static json_t *copy_list(const VialShapeField *field, const json_t *value, GError **error)
{
	g_autoptr(json_t) list = json_array();
	json_t *item;
	gsize i;

	if (!json_is_array(value) || json_array_size(value) > (gsize)field->max) {
		wrong(field, json_is_array(value) ? "has too many elements" : "is not a list", error);
		return NULL;
	}
	json_array_foreach (value, i, item) {
		json_t *copy = field->inner ? vial_shape_copy(field->inner, item, error) : json_is_number(item) ? json_incref(item) : NULL;

		if (!copy) {
			if (field->inner)
				g_prefix_error(error, "in \"%s\": ", field->name);
			else
				wrong(field, "is not a list of numbers", error);
			return NULL;
		}
		json_array_append_new(list, copy);
	}
	return g_steal_pointer(&list);
}

static gboolean check_texts(const VialShapeField *field, const json_t *value, GError **error)
{
	gsize size = 0;
	const char *name;
	json_t *text;

	if (!json_is_object(value))
		return wrong(field, "is no object", error);
	json_object_foreach ((json_t *)value, name, text) {
		if (!json_is_string(text))
			return wrong(field, "has something that is no text", error);
		size += strlen(name) + json_string_length(text);
	}
	return size <= (gsize)field->max || wrong(field, "is too long", error);
}

/* The value as it may be passed on: a new reference, or NULL with an error. */
static json_t *accept(const VialShapeField *field, json_t *value, GError **error)
{
	json_t *copy;

	switch (field->type) {
	case VIAL_SHAPE_BOOL:
		return json_is_boolean(value) || wrong(field, "is not true or false", error) ? json_incref(value) : NULL;
	case VIAL_SHAPE_INT:
		if (!json_is_integer(value) || json_integer_value(value) < field->min || json_integer_value(value) > field->max)
			return wrong(field, json_is_integer(value) ? "is out of range" : "is not an integer", error), NULL;
		return json_incref(value);
	case VIAL_SHAPE_NUMBER:
		return json_is_number(value) || wrong(field, "is not a number", error) ? json_incref(value) : NULL;
	case VIAL_SHAPE_TEXT:
	case VIAL_SHAPE_TOKEN:
		return check_text(field, value, error) ? json_incref(value) : NULL;
	case VIAL_SHAPE_TEXTS:
		return check_texts(field, value, error) ? json_incref(value) : NULL;
	case VIAL_SHAPE_OBJECT:
		copy = vial_shape_copy(field->inner, value, error);
		if (!copy)
			g_prefix_error(error, "in \"%s\": ", field->name);
		return copy;
	case VIAL_SHAPE_LIST:
		return copy_list(field, value, error);
	}
	return NULL;
}

/* A field's value; NULL with an error, or without one when it is absent and may be. null is absent. */
static json_t *take(const VialShapeField *field, const json_t *object, GError **error)
{
	json_t *value = json_object_get(object, field->name);

	if (value && !json_is_null(value))
		return accept(field, value, error);
	if (field->is_required)
		wrong(field, "is missing", error);
	return NULL;
}

json_t *vial_shape_copy(const VialShape *shape, const json_t *value, GError **error)
{
	g_autoptr(json_t) copy = json_object();

	if (!json_is_object(value)) {
		vial_fail(error, VIAL_ERROR_GATEWAY, "it is not an object");
		return NULL;
	}
	for (gsize i = 0; i < shape->n_fields; i++) {
		g_autoptr(GError) problem = NULL;
		json_t *field = take(&shape->fields[i], value, &problem);

		if (problem) {
			g_propagate_error(error, g_steal_pointer(&problem));
			return NULL;
		}
		if (field)
			json_object_set_new_nocheck(copy, shape->fields[i].name, field);
	}
	return g_steal_pointer(&copy);
}

static void put(const VialShapeField *field, json_t *value, gpointer out)
{
	gpointer place = (char *)out + field->offset;

	switch (field->type) {
	case VIAL_SHAPE_BOOL:
		*(gboolean *)place = json_is_true(value);
		break;
	case VIAL_SHAPE_INT:
		*(gint64 *)place = json_integer_value(value);
		break;
	case VIAL_SHAPE_NUMBER:
		*(double *)place = json_number_value(value);
		break;
	case VIAL_SHAPE_TEXT:
	case VIAL_SHAPE_TOKEN:
		*(const char **)place = json_string_value(value);
		break;
	case VIAL_SHAPE_OBJECT:
	case VIAL_SHAPE_TEXTS:
	case VIAL_SHAPE_LIST:
		*(json_t **)place = json_incref(value);
		break;
	}
}

gboolean vial_shape_read(const VialShape *shape, const json_t *value, gpointer out, GError **error)
{
	g_autoptr(json_t) clean = vial_shape_copy(shape, value, error);

	if (!clean)
		return FALSE;
	for (gsize i = 0; i < shape->n_fields; i++) {
		json_t *field = json_object_get(clean, shape->fields[i].name);

		/* Texts belong to `value` too, which outlives the copy. */
		if (field)
			put(&shape->fields[i], field, out);
	}
	return TRUE;
}

/* Bundles */

static gboolean is_mime_key(const char *key)
{
	gsize length = strlen(key);

	if (length == 0 || length > VIAL_BUNDLE_KEY_MAX_BYTES)
		return FALSE;
	for (; *key; key++)
		if (!g_ascii_isalnum(*key) && !strchr("!#$&-^_.+/;= ", *key))
			return FALSE;
	return TRUE;
}

gboolean vial_bundle_check(const json_t *bundle, gsize *out_size, GError **error)
{
	const char *key;
	json_t *value;

	if (json_object_size(bundle) > VIAL_BUNDLE_MAX_KEYS)
		return vial_fail(error, VIAL_ERROR_GATEWAY, "a result has more than %d representations", VIAL_BUNDLE_MAX_KEYS);
	json_object_foreach ((json_t *)bundle, key, value)
		if (!is_mime_key(key))
			return vial_fail(error, VIAL_ERROR_GATEWAY, "a result has a representation whose name is no MIME type");
	*out_size = json_dumpb(bundle, NULL, 0, JSON_COMPACT);
	return TRUE;
}
