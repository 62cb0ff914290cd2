/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and forks. */
#include "operations/snapshots.h"

#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/podflare/handlers.h"
#include "surfaces/shared/pandastack.h"
#include "surfaces/shared/podflare.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

static void on_taken(VialSnapshot *snapshot, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = snapshot ? vial_snapshot_json(snapshot) : NULL;

	vial_surface_reply_created(document, error, data);
}

void vial_api_snapshot_take(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	const char *name = NULL;

	vial_surface_begun(request,
	                   vial_decode_text(vial_request_json(request), "name", &name, &error) &&
	                           vial_op_snapshot_take(&caller, vial_surface_sandbox(request), name, on_taken, request, &error),
	                   &error);
}

void vial_api_snapshot_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	g_autoptr(GPtrArray) list = vial_op_snapshot_list(&caller, vial_request_query(request, "sandbox_id"), &error);
	json_t *answer = list ? json_array() : NULL;

	for (guint i = 0; list && i < list->len; i++)
		json_array_append_new(answer, vial_snapshot_json(list->pdata[i]));
	vial_surface_reply_now(request, answer, error);
}

void vial_api_snapshot_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	VialSnapshot *snapshot = vial_op_snapshot_get(&caller, vial_request_param(request, "snapshot"), &error);

	vial_surface_reply_now(request, snapshot ? vial_snapshot_json(snapshot) : NULL, error);
}

void vial_api_snapshot_delete(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(
		request, vial_op_snapshot_delete(&caller, vial_request_param(request, "snapshot"), vial_surface_reply_done, request, &error), &error);
}

/* Forks */

static json_t *child_json(const VialRequest *request, const VialSandbox *child)
{
	json_t *document = vial_sandbox_json(child);

	return vial_surface_is_pandastack(request) ? vial_pandastack_sandbox(document) : document;
}

static void on_forked(const char *tree_id, GPtrArray *children, GPtrArray *errors, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = NULL;

	if (!error)
		error = errors->pdata[0];
	if (!error)
		document = json_pack("{s:o, s:s}", "sandbox", child_json(data, children->pdata[0]), "tree_id", tree_id);
	vial_surface_reply_created(document, error, data);
}

static void fork_one(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	VialForkRequest fork = { .count = 1, .ttl_seconds = VIAL_UNSAID };
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_decode_object(vial_request_json(request), "metadata", &fork.metadata, &error) &&
	                           vial_op_fork(&caller, vial_surface_sandbox(request), &fork, on_forked, request, &error),
	                   &error);
}

void vial_api_fork(VialRequest *request)
{
	if (vial_podflare_is_fork(request))
		vial_podflare_fork(request);
	else
		fork_one(request);
}

static void on_tree_forked(const char *tree_id, GPtrArray *children, GPtrArray *errors, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = error ? NULL : json_pack("{s:s, s:[], s:[]}", "tree_id", tree_id, "children", "errors");
	json_t *living = json_object_get(document, "children"), *failures = json_object_get(document, "errors");

	for (guint i = 0; document && i < children->len; i++) {
		const GError *failure = errors->pdata[i];

		if (failure)
			json_array_append_new(failures, json_string(failure->message));
		else
			json_array_append_new(living, child_json(data, children->pdata[i]));
	}
	/* A tree without children is none. */
	if (document && json_array_size(living) == 0)
		error = errors->pdata[0];
	vial_surface_reply_created(document, error, data);
}

void vial_api_fork_tree(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	VialForkRequest fork = { .count = VIAL_UNSAID, .ttl_seconds = VIAL_UNSAID };
	const json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;

	/* explore() says so only there how long what it leaves behind may live. */
	if (vial_surface_is_pandastack(request))
		fork.trial_seconds = vial_pandastack_trial_seconds(json_object_get(body, "metadata"));
	vial_surface_begun(request,
	                   vial_decode_int(body, "count", &fork.count, &error) && vial_decode_object(body, "metadata", &fork.metadata, &error) &&
	                           vial_op_fork(&caller, vial_surface_sandbox(request), &fork, on_tree_forked, request, &error),
	                   &error);
}

static void on_promoted(json_t *answer, gpointer data)
{
	vial_surface_reply_ok(answer, NULL, data);
}

void vial_api_promote(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	const char *tree_id = NULL;
	gboolean cleanup = FALSE;

	vial_surface_begun(request,
	                   vial_decode_text(vial_request_json(request), "tree_id", &tree_id, &error) &&
	                           vial_decode_bool(vial_request_json(request), "cleanup_siblings", &cleanup, &error) &&
	                           vial_op_promote(&caller, vial_surface_sandbox(request), tree_id, cleanup, on_promoted, request, &error),
	                   &error);
}
