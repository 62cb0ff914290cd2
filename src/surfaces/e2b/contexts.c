/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of the code interpreter. */
#include "operations/contexts.h"

#include <string.h>

#include "surfaces/e2b/code.h"
#include "surfaces/e2b/data.h"
#include "util/json.h"

/* One of those that run code without a context, and in which nothing has run yet: it enters its directory with the first code. */
static gboolean is_to_begin(const json_t *context)
{
	g_autofree char *id = g_strconcat("default-", json_string_value(json_object_get(context, "language")), NULL);

	return json_integer_value(json_object_get(context, "execution_count")) == 0 &&
	       strcmp(id, json_string_value(json_object_get(context, "id"))) == 0;
}

static json_t *context_json(const json_t *context)
{
	json_t *json = json_pack("{s:O, s:O, s:O}", "id", json_object_get(context, "id"), "language", json_object_get(context, "language"), "cwd",
	                         json_object_get(context, "cwd"));

	if (is_to_begin(context)) {
		g_autofree char *home = vial_e2b_path(NULL, NULL);

		json_object_set_new(json, "cwd", json_string(home));
	}
	return json;
}

/* Answers: `data` is the request */

static void reply(VialRequest *request, json_t *answer, const GError *error)
{
	if (error)
		vial_e2b_code_reply_error(request, error);
	else
		vial_request_reply_json(request, 200, answer);
	vial_request_unref(request);
}

static void on_one(json_t *context, const GError *error, gpointer data)
{
	reply(data, error ? NULL : context_json(context), error);
}

static void on_list(json_t *document, const GError *error, gpointer data)
{
	json_t *list = error ? NULL : json_array(), *context;
	gsize i;

	json_array_foreach (json_object_get(document, "contexts"), i, context)
		json_array_append_new(list, context_json(context));
	reply(data, list, error);
}

static void on_done(json_t *document, const GError *error, gpointer data)
{
	reply(data, error ? NULL : json_object(), error);
}

/* The error by its place: what began it may be called after the other arguments are read. */
static void begun(VialRequest *request, gboolean is_begun, GError **error)
{
	if (!is_begun)
		reply(request, NULL, *error);
}

/* Calls */

void vial_e2b_context_create(VialRequest *request)
{
	const json_t *body = vial_request_json(request);
	VialContextRequest context = { 0 };
	g_autoptr(GError) error = NULL;
	g_autofree char *cwd = NULL;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TRAFFIC))
		return;
	caller = vial_surface_question(request);
	if (vial_decode_text(body, "language", &context.language, &error) && vial_decode_text(body, "cwd", &context.cwd, &error)) {
		context.language = vial_e2b_language(context.language);
		context.cwd = cwd = vial_e2b_path(NULL, context.cwd);
		vial_op_context_create(&caller, vial_surface_sandbox(request), &context, on_one, request, &error);
	}
	begun(request, !error, &error);
}

void vial_e2b_context_list(VialRequest *request)
{
	g_autoptr(GError) error = NULL;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TRAFFIC))
		return;
	caller = vial_surface_question(request);
	begun(request, vial_op_context_list(&caller, vial_surface_sandbox(request), on_list, request, &error), &error);
}

typedef gboolean (*Verb)(const VialCaller *caller, const char *sandbox_id, const char *context, VialDocumentDone done, gpointer data, GError **error);

static void act(VialRequest *request, Verb verb)
{
	g_autoptr(GError) error = NULL;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TRAFFIC))
		return;
	caller = vial_surface_question(request);
	begun(request, verb(&caller, vial_surface_sandbox(request), vial_request_param(request, "context"), on_done, request, &error), &error);
}

void vial_e2b_context_restart(VialRequest *request)
{
	act(request, vial_op_context_restart);
}

void vial_e2b_context_delete(VialRequest *request)
{
	act(request, vial_op_context_delete);
}
