/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens are keys of the project, known by how they begin. */
#include <string.h>

#include "operations/keys.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "surfaces/pandastack/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"
#include "util/time.h"

static json_t *token_json(json_t *key)
{
	json_t *name = json_object_get(key, "name");

	return json_pack("{s:O*, s:O, s:O, s:O*, s:O*, s:O*, s:O*, s:O*}", "prefix", json_object_get(key, "hint"), "name", name, "label", name, "id",
	                 json_object_get(key, "id"), "role", json_object_get(key, "role"), "token", json_object_get(key, "key"), "created_at",
	                 json_object_get(key, "created_at"), "expires_at", json_object_get(key, "expires_at"));
}

void vial_pandastack_token_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	g_autofree char *next = NULL;
	GError *error = NULL;
	g_autoptr(json_t) keys = vial_op_key_list(&caller, NULL, NULL, VIAL_UNSAID, &next, &error);
	json_t *answer = keys ? json_array() : NULL, *key;
	gsize i;

	json_array_foreach (keys, i, key)
		json_array_append_new(answer, token_json(key));
	vial_surface_reply_now(request, answer, error);
}

/* It may do what whoever makes it may: this dialect has no roles. */
static void on_created(json_t *document, const GError *error, gpointer data)
{
	g_autoptr(json_t) answer = document ? token_json(document) : NULL;

	vial_surface_reply_created(answer, error, data);
}

void vial_pandastack_token_create(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	const json_t *body = vial_request_json(request);
	VialKeyRequest key = { .form = "pds", .is_as_giver = TRUE };
	gint64 days = VIAL_UNSAID;
	g_autofree char *expires_at = NULL;
	g_autoptr(GError) error = NULL;
	gboolean is_read = vial_decode_text(body, "label", &key.name, &error) && vial_decode_int(body, "expires_in_days", &days, &error) &&
	                   vial_check_int("expires_in_days", days, 1, VIAL_KEY_MAX_DAYS, &error);

	if (is_read && days != VIAL_UNSAID)
		key.expires_at = expires_at = vial_time_format(vial_time_now_ms() + days * 24 * 3600 * 1000);
	vial_surface_begun(request, is_read && vial_op_key_create(&caller, &key, on_created, request, &error), &error);
}

/* The id of the one that begins so, or has it for its id. Free it; NULL with an error. */
static char *find_key(const VialCaller *caller, const char *prefix, GError **error)
{
	g_autofree char *next = NULL;
	g_autoptr(json_t) keys = vial_op_key_list(caller, NULL, NULL, VIAL_UNSAID, &next, error);
	const char *found = NULL;
	json_t *key;
	gsize i;

	if (!keys)
		return NULL;
	json_array_foreach (keys, i, key) {
		const char *id = json_string_value(json_object_get(key, "id"));

		if (g_strcmp0(id, prefix) == 0)
			return g_strdup(id);
		if (g_strcmp0(json_string_value(json_object_get(key, "hint")), prefix) != 0)
			continue;
		if (found)
			return vial_fail(error, VIAL_ERROR_CONFLICT, "several tokens begin with \"%.16s\": name the one that is meant by its id",
			                 prefix),
			       NULL;
		found = id;
	}
	if (!found)
		vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no token that begins with \"%.16s\"", prefix);
	return g_strdup(found);
}

void vial_pandastack_token_revoke(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	g_autofree char *id = find_key(&caller, vial_request_param(request, "prefix"), &error);

	vial_surface_begun(request, id && vial_op_key_revoke(&caller, id, vial_surface_reply_nothing, request, &error), &error);
}
