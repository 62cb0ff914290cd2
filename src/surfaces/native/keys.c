/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/keys.h"

#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

static gboolean decode(const json_t *body, VialKeyRequest *out, GError **error)
{
	static const char *const names[] = { "name", "role", "project", "form", "expires_at", "allow", "limits", NULL };
	json_t *expires = json_object_get(body, "expires_at");

	*out = (VialKeyRequest){ .allow = json_object_get(body, "allow"),
		                 .limits = json_object_get(body, "limits"),
		                 .clears_expiry = json_is_null(expires) };
	return vial_decode_known(body, names, error) && vial_decode_text(body, "name", &out->name, error) &&
	       vial_decode_text(body, "role", &out->role, error) && vial_decode_text(body, "project", &out->project, error) &&
	       vial_decode_text(body, "form", &out->form, error) && vial_decode_text(body, "expires_at", &out->expires_at, error);
}

void vial_api_key_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	const char *cursor = vial_request_query(request, "cursor");
	g_autofree char *next = NULL;
	gint64 limit = VIAL_UNSAID;
	GError *error = NULL;
	json_t *items = NULL;

	if (vial_decode_query_int(request, "limit", &limit, &error))
		items = vial_op_key_list(&caller, vial_request_query(request, "project"), cursor, limit, &next, &error);
	if (items && (limit != VIAL_UNSAID || cursor))
		items = json_pack("{s:o, s:s?}", "items", items, "next", next);
	vial_surface_reply_now(request, items, error);
}

void vial_api_key_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *answer = vial_op_key_get(&caller, vial_request_param(request, "key"), &error);

	vial_surface_reply_now(request, answer, error);
}

void vial_api_key_create(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialKeyRequest key;

	vial_surface_begun(request,
	                   decode(vial_request_json(request), &key, &error) &&
	                           vial_op_key_create(&caller, &key, vial_surface_reply_created, request, &error),
	                   &error);
}

void vial_api_key_change(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	const json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;
	VialKeyRequest key;

	if (json_object_get(body, "project") || json_object_get(body, "form"))
		vial_fail(&error, VIAL_ERROR_INVALID, "the project and the form of a key cannot be changed: make another key");
	vial_surface_begun(request,
	                   !error && decode(body, &key, &error) &&
	                           vial_op_key_change(&caller, vial_request_param(request, "key"), &key, vial_surface_reply_ok, request, &error),
	                   &error);
}

void vial_api_key_revoke(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_key_revoke(&caller, vial_request_param(request, "key"), vial_surface_reply_nothing, request, &error),
	                   &error);
}

void vial_api_key_rotate(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	gint64 overlap_seconds = VIAL_UNSAID;
	g_autoptr(GError) error = NULL;

	vial_surface_begun(
		request,
		vial_decode_int(vial_request_json(request), "overlap_seconds", &overlap_seconds, &error) &&
			vial_op_key_rotate(&caller, vial_request_param(request, "key"), overlap_seconds, vial_surface_reply_ok, request, &error),
		&error);
}
