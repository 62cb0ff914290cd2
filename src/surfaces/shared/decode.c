/* SPDX-License-Identifier: Apache-2.0 */
/* JSON and query into C, by type only. */
#include <string.h>

#include "surfaces/shared/surface.h"
#include "util/json.h"

gboolean vial_decode_text(const json_t *body, const char *field, const char **out, GError **error)
{
	return vial_json_get_string(body, field, 0, G_MAXSIZE, out, error);
}

static void drop_json(gpointer json)
{
	json_decref(json);
}

gboolean vial_decode_bytes(const json_t *body, const char *field, GBytes **out, GError **error)
{
	json_t *value = json_object_get(body, field);
	const char *text = NULL;

	if (!vial_decode_text(body, field, &text, error))
		return FALSE;
	/* Borrowed from the body, which may be many megabytes. */
	if (text)
		*out = g_bytes_new_with_free_func(text, json_string_length(value), drop_json, json_incref(value));
	return TRUE;
}

gboolean vial_decode_int(const json_t *body, const char *field, gint64 *out, GError **error)
{
	return vial_json_get_int(body, field, 0, G_MININT64, G_MAXINT64, out, error);
}

gboolean vial_decode_real(const json_t *body, const char *field, double *out, GError **error)
{
	return vial_json_get_double(body, field, 0, -G_MAXDOUBLE, G_MAXDOUBLE, out, error);
}

gboolean vial_decode_bool(const json_t *body, const char *field, gboolean *out, GError **error)
{
	return vial_json_get_bool(body, field, 0, out, error);
}

gboolean vial_decode_object(const json_t *body, const char *field, json_t **out, GError **error)
{
	return vial_json_get_object(body, field, 0, out, error);
}

gboolean vial_decode_list(const json_t *body, const char *field, json_t **out, GError **error)
{
	json_t *value = json_object_get(body, field);

	if (!value || json_is_null(value))
		return TRUE;
	if (!json_is_array(value))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be an array", field);
	*out = value;
	return TRUE;
}

gboolean vial_decode_known(const json_t *body, const char *const *names, GError **error)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)body, name, value) {
		g_autofree char *list = NULL;

		if (g_strv_contains(names, name) || strcmp(name, "origin") == 0)
			continue;
		list = g_strjoinv(", ", (char **)names);
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%.64s\" is none that there is here: these are %s", name, list);
	}
	return TRUE;
}

gboolean vial_decode_query_int(const VialRequest *request, const char *name, gint64 *out, GError **error)
{
	const char *text = vial_request_query(request, name);

	return !text || g_ascii_string_to_signed(text, 10, G_MININT64, G_MAXINT64, out, NULL) ||
	       vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be an integer", name);
}

gboolean vial_decode_query_bool(const VialRequest *request, const char *name, gboolean *out, GError **error)
{
	const char *text = vial_request_query(request, name);

	if (!text)
		return TRUE;
	*out = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
	return *out || strcmp(text, "0") == 0 || strcmp(text, "false") == 0 ||
	       vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be true or false", name);
}

gboolean vial_decode_pid(const VialRequest *request, gint64 *out, GError **error)
{
	const char *text = vial_request_param(request, "pid");

	return g_ascii_string_to_signed(text, 10, 1, G_MAXINT32, out, NULL) ||
	       vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no process %.20s", text);
}
