/* SPDX-License-Identifier: Apache-2.0 */
#include "util/json_fields.h"

#include "util/error.h"
#include "util/json.h"
#include "util/time.h"

/* The member, whatever it is. */
static gpointer member(const VialField *field, gconstpointer instance)
{
	return (char *)instance + field->offset;
}

static json_t *write_time(gint64 time_ms)
{
	char text[VIAL_TIME_TEXT_SIZE];

	if (time_ms == 0)
		return NULL;
	vial_time_fill(text, time_ms);
	return json_string(text);
}

static json_t *write_list(char **texts)
{
	json_t *list = texts ? json_array() : NULL;

	for (; texts && *texts; texts++)
		json_array_append_new(list, json_string(*texts));
	return list;
}

static json_t *write_field(const VialField *field, gconstpointer instance)
{
	gpointer at = member(field, instance);

	if (field->get)
		return field->get(instance);
	switch (field->type) {
	case VIAL_FIELD_TEXT:
		return *(char **)at ? json_string(*(char **)at) : NULL;
	case VIAL_FIELD_INT:
		return json_integer(*(gint64 *)at);
	case VIAL_FIELD_ENUM:
		return field->names ? json_string(field->names[*(const int *)at]) : json_integer(*(const int *)at);
	case VIAL_FIELD_DOUBLE:
		return json_real(*(double *)at);
	case VIAL_FIELD_BOOL:
		return json_boolean(*(gboolean *)at);
	case VIAL_FIELD_OBJECT:
		return json_incref(*(json_t **)at);
	case VIAL_FIELD_LIST:
		return write_list(*(char ***)at);
	case VIAL_FIELD_TIME:
		return write_time(*(gint64 *)at);
	case VIAL_FIELD_VALUE:
		break;
	}
	return NULL;
}

json_t *vial_fields_write(const VialField *fields, gsize n_fields, gconstpointer instance)
{
	json_t *object = json_object();

	for (gsize i = 0; i < n_fields; i++) {
		json_t *value = write_field(&fields[i], instance);

		if (value)
			json_object_set_new(object, fields[i].name, value);
	}
	return object;
}

static gboolean read_text(const VialField *field, const json_t *object, char **out, GError **error)
{
	const char *text = NULL;

	if (!vial_json_get_string(object, field->name, field->flags, G_MAXINT32, &text, error))
		return FALSE;
	if (text) {
		g_free(*out);
		*out = g_strdup(text);
	}
	return TRUE;
}

static gboolean read_object(const VialField *field, const json_t *object, json_t **out, GError **error)
{
	json_t *value = NULL;

	if (!vial_json_get_object(object, field->name, field->flags, &value, error))
		return FALSE;
	if (value) {
		json_decref(*out);
		*out = json_incref(value);
	}
	return TRUE;
}

static gboolean read_list(const VialField *field, const json_t *object, char ***out, GError **error)
{
	const json_t *list = json_object_get(object, field->name);
	g_autoptr(GStrvBuilder) texts = g_strv_builder_new();
	size_t index;
	json_t *item;

	if (!list && !(field->flags & VIAL_JSON_REQUIRED))
		return TRUE;
	if (!json_is_array(list))
		return vial_fail(error, VIAL_ERROR_INVALID, "\"%s\" must be a list", field->name);
	json_array_foreach ((json_t *)list, index, item) {
		if (!json_is_string(item))
			return vial_fail(error, VIAL_ERROR_INVALID, "\"%s\" must be a list of texts", field->name);
		g_strv_builder_add(texts, json_string_value(item));
	}
	g_strfreev(*out);
	*out = g_strv_builder_end(texts);
	return TRUE;
}

static gboolean read_enum(const VialField *field, const json_t *object, int *out, GError **error)
{
	gint64 number = *out;

	if (field->names)
		return vial_json_get_choice(object, field->name, field->flags, field->names, out, error);
	if (!vial_json_get_int(object, field->name, field->flags, 0, G_MAXINT32, &number, error))
		return FALSE;
	*out = (int)number;
	return TRUE;
}

static gboolean read_field(const VialField *field, const json_t *object, gpointer instance, GError **error)
{
	gpointer at = member(field, instance);

	switch (field->type) {
	case VIAL_FIELD_TEXT:
		return read_text(field, object, at, error);
	case VIAL_FIELD_INT:
		return vial_json_get_int(object, field->name, field->flags, G_MININT64, G_MAXINT64, at, error);
	case VIAL_FIELD_ENUM:
		return read_enum(field, object, at, error);
	case VIAL_FIELD_DOUBLE:
		return vial_json_get_double(object, field->name, field->flags, -G_MAXDOUBLE, G_MAXDOUBLE, at, error);
	case VIAL_FIELD_BOOL:
		return vial_json_get_bool(object, field->name, field->flags, at, error);
	case VIAL_FIELD_OBJECT:
		return read_object(field, object, at, error);
	case VIAL_FIELD_LIST:
		return read_list(field, object, at, error);
	case VIAL_FIELD_TIME:
	case VIAL_FIELD_VALUE:
		break;
	}
	return TRUE;
}

gboolean vial_fields_read(const VialField *fields, gsize n_fields, const json_t *object, gpointer instance, GError **error)
{
	for (gsize i = 0; i < n_fields; i++)
		if (!read_field(&fields[i], object, instance, error))
			return FALSE;
	return TRUE;
}
