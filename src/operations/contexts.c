/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/contexts.h"

#include "operations/guest.h"
#include "operations/limits.h"
#include "operations/validate.h"

#define MAX_CONTEXTS 1024

VIAL_SHAPE(context_shape, { "id", VIAL_SHAPE_TOKEN, TRUE, 0, 64, NULL, 0 },
           { "language", VIAL_SHAPE_TOKEN, TRUE, 0, VIAL_LANGUAGE_MAX_BYTES, NULL, 0 },
           { "cwd", VIAL_SHAPE_TEXT, TRUE, 0, 3 * VIAL_PATH_MAX_BYTES, NULL, 0 }, { "state", VIAL_SHAPE_TOKEN, TRUE, 0, 16, NULL, 0 },
           { "execution_count", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, 0 }, { "pid", VIAL_SHAPE_INT, TRUE, -1, G_MAXINT32, NULL, 0 },
           { "queued", VIAL_SHAPE_INT, FALSE, 0, G_MAXINT32, NULL, 0 });

VIAL_SHAPE(one_shape, { "context", VIAL_SHAPE_OBJECT, TRUE, 0, 0, &context_shape, 0 });
VIAL_SHAPE(list_shape, { "contexts", VIAL_SHAPE_LIST, TRUE, 0, MAX_CONTEXTS, &context_shape, 0 });

typedef struct {
	VialDocumentDone done;
	gpointer data;
} Unwrapping;

/* The agent says {context: {...}}; what is meant is the context. */
static void unwrap(json_t *document, const GError *error, gpointer data)
{
	g_autofree Unwrapping *unwrapping = data;

	unwrapping->done(json_object_get(document, "context"), error, unwrapping->data);
}

static gboolean ask_for_one(const VialCaller *caller, VialVerb verb, VialSandbox *sandbox, json_t *question, json_t *body, VialDocumentDone done,
                            gpointer data, GError **error)
{
	Unwrapping *unwrapping = g_new0(Unwrapping, 1);

	*unwrapping = (Unwrapping){ done, data };
	if (vial_guest_ask(caller, verb, sandbox, question, body, &one_shape, unwrap, unwrapping, error))
		return TRUE;
	g_free(unwrapping);
	return FALSE;
}

gboolean vial_op_context_create(const VialCaller *caller, const char *sandbox_id, const VialContextRequest *request, VialDocumentDone done,
                                gpointer data, GError **error)
{
	const char *language = request->language ? request->language : "python";
	VialSandbox *sandbox;

	return vial_operation_admit(caller, VIAL_VERB_CONTEXT_CREATE, sandbox_id, 0, &sandbox, error) &&
	       vial_check_text("language", request->language, VIAL_LANGUAGE_MAX_BYTES, error) &&
	       vial_check_text("cwd", request->cwd, VIAL_PATH_MAX_BYTES, error) && vial_check_user(request->user, error) &&
	       ask_for_one(caller, VIAL_VERB_CONTEXT_CREATE, sandbox,
	                   json_pack("{s:s, s:s, s:s*, s:s*}", "op", "ctx.create", "language", language, "cwd", request->cwd, "user", request->user),
	                   json_pack("{s:s, s:s*, s:s*}", "language", language, "cwd", request->cwd, "user", request->user), done, data, error);
}

gboolean vial_op_context_list(const VialCaller *caller, const char *sandbox_id, VialDocumentDone done, gpointer data, GError **error)
{
	VialSandbox *sandbox;

	return vial_operation_admit(caller, VIAL_VERB_CONTEXT_READ, sandbox_id, 0, &sandbox, error) &&
	       vial_guest_ask(caller, VIAL_VERB_CONTEXT_READ, sandbox, json_pack("{s:s}", "op", "ctx.list"), NULL, &list_shape, done, data, error);
}

static json_t *about(const char *op, const char *context)
{
	return json_pack("{s:s, s:s}", "op", op, "id", context);
}

static json_t *record(const char *context)
{
	return json_pack("{s:s}", "context", context);
}

gboolean vial_op_context_restart(const VialCaller *caller, const char *sandbox_id, const char *context, VialDocumentDone done, gpointer data,
                                 GError **error)
{
	VialSandbox *sandbox;

	return vial_operation_admit(caller, VIAL_VERB_CONTEXT_RESTART, sandbox_id, 0, &sandbox, error) &&
	       ask_for_one(caller, VIAL_VERB_CONTEXT_RESTART, sandbox, about("ctx.restart", context), record(context), done, data, error);
}

gboolean vial_op_context_delete(const VialCaller *caller, const char *sandbox_id, const char *context, VialDocumentDone done, gpointer data,
                                GError **error)
{
	VialSandbox *sandbox;

	return vial_operation_admit(caller, VIAL_VERB_CONTEXT_DELETE, sandbox_id, 0, &sandbox, error) &&
	       vial_guest_ask(caller, VIAL_VERB_CONTEXT_DELETE, sandbox, about("ctx.delete", context), record(context), NULL, done, data, error);
}

gboolean vial_op_context_interrupt(const VialCaller *caller, const char *sandbox_id, const char *context, VialDocumentDone done, gpointer data,
                                   GError **error)
{
	VialSandbox *sandbox;

	return vial_operation_admit(caller, VIAL_VERB_CONTEXT_INTERRUPT, sandbox_id, 0, &sandbox, error) &&
	       vial_guest_ask(caller, VIAL_VERB_CONTEXT_INTERRUPT, sandbox, about("ctx.interrupt", context), record(context), NULL, done, data,
	                      error);
}
