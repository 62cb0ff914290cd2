/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: show and replace its policy, ask what it would say, and see what happened. */
#include "operations/network.h"

#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"

void vial_api_network_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *policy = vial_op_network_get(&caller, vial_surface_sandbox(request), &error);

	vial_surface_reply_now(request, json_incref(policy), error);
}

void vial_api_network_put(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(
		request,
		vial_op_network_put(&caller, vial_surface_sandbox(request), vial_request_json(request), vial_surface_reply_ok, request, &error),
		&error);
}

void vial_api_network_check(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	const json_t *body = vial_request_json(request);
	const char *host = NULL;
	gint64 port = VIAL_UNSAID;
	GError *error = NULL;
	json_t *answer = NULL;

	if (vial_decode_text(body, "host", &host, &error) && vial_decode_int(body, "port", &port, &error))
		answer = vial_op_network_check(&caller, vial_surface_sandbox(request), host, port, &error);
	vial_surface_reply_now(request, answer, error);
}

void vial_api_network_events(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	const char *after_text = vial_request_query(request, "after");
	gint64 limit = VIAL_UNSAID;
	GError *error = NULL;
	json_t *answer = NULL;
	guint64 after = 0;

	if (after_text && !g_ascii_string_to_unsigned(after_text, 10, 0, G_MAXUINT64, &after, NULL))
		vial_fail(&error, VIAL_ERROR_INVALID, "field \"after\" must be an integer");
	else if (vial_decode_query_int(request, "limit", &limit, &error))
		answer = vial_op_network_events(&caller, vial_surface_sandbox(request), after, limit, &error);
	vial_surface_reply_now(request, answer, error);
}
