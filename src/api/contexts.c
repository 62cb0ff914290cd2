/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts (repl sessions): living interpreters of a sandbox. */
#include "api/guest.h"
#include "api/handlers.h"
#include "util/json.h"

static void reply_created(VialRequest *request, json_t *result)
{
	vial_request_reply_json(request, 201, json_incref(json_object_get(result, "context")));
}

static void reply_context(VialRequest *request, json_t *result)
{
	json_t *context = json_object_get(result, "context");

	if (context)
		vial_request_reply_json(request, 200, json_incref(context));
	else
		vial_request_reply_empty(request, 204);
}

static void reply_list(VialRequest *request, json_t *result)
{
	vial_request_reply_json(request, 200, json_incref(json_object_get(result, "contexts")));
}

static void reply_nothing(VialRequest *request, json_t *result)
{
	vial_request_reply_empty(request, 204);
}

void vial_api_context_create(VialRequest *request)
{
	json_t *body = vial_request_json(request);
	const char *language = "python", *cwd = NULL;
	g_autoptr(GError) error = NULL;

	if (!vial_json_get_string(body, "language", VIAL_JSON_NONEMPTY, 32, &language, &error) ||
	    !vial_json_get_string(body, "cwd", VIAL_JSON_NONEMPTY, 4096, &cwd, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	vial_guest_ask(request, json_pack("{s:s, s:s, s:s*}", "op", "ctx.create", "language", language, "cwd", cwd), reply_created);
}

void vial_api_context_list(VialRequest *request)
{
	vial_guest_ask(request, json_pack("{s:s}", "op", "ctx.list"), reply_list);
}

static void ask_about(VialRequest *request, const char *op, VialReply reply)
{
	vial_guest_ask(request, json_pack("{s:s, s:s}", "op", op, "id", vial_request_param(request, "sid")), reply);
}

void vial_api_context_delete(VialRequest *request)
{
	ask_about(request, "ctx.delete", reply_nothing);
}

void vial_api_context_interrupt(VialRequest *request)
{
	ask_about(request, "ctx.interrupt", reply_nothing);
}

void vial_api_context_restart(VialRequest *request)
{
	ask_about(request, "ctx.restart", reply_context);
}
