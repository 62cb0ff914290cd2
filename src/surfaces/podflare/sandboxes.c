/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes as a whole: made, ended, forked, merged. Its client wants no more of an answer than ids, and must never be told an `endpoint`. */
#include "operations/sandboxes.h"

#include "operations/in_place.h"
#include "operations/limits.h"
#include "operations/snapshots.h"
#include "surfaces/podflare/handlers.h"
#include "surfaces/shared/podflare.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

void vial_podflare_healthz(VialRequest *request)
{
	vial_request_reply_bytes(request, 200, "text/plain; charset=utf-8", g_bytes_new_static("ok", 2));
}

static void on_created(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = sandbox ? vial_podflare_sandbox(sandbox) : NULL;

	vial_surface_reply_created(document, error, data);
}

void vial_podflare_create(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialCreateRequest create;

	vial_surface_begun(request,
	                   vial_podflare_decode_create(&caller, vial_request_json(request), &create, &error) &&
	                           vial_op_sandbox_create(&caller, &create, on_created, request, &error),
	                   &error);
	json_decref(create.network);
}

void vial_podflare_destroy(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_sandbox_delete(&caller, vial_surface_sandbox(request), vial_surface_reply_done, request, &error), &error);
}

/* Those that came to be; where none did, why. */
static void on_forked(const char *tree_id, GPtrArray *children, GPtrArray *errors, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = error ? NULL : json_pack("{s:[], s:[]}", "children", "errors");
	json_t *ids = json_object_get(document, "children"), *failures = json_object_get(document, "errors");

	for (guint i = 0; document && i < children->len; i++) {
		const GError *failure = errors->pdata[i];

		if (failure)
			json_array_append_new(failures, json_string(failure->message));
		else
			json_array_append_new(ids, json_string(vial_sandbox_id(children->pdata[i])));
	}
	if (document && json_array_size(ids) == 0)
		error = errors->pdata[0];
	vial_surface_reply_created(document, error, data);
}

void vial_podflare_fork(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	VialForkRequest fork = { .count = 1, .ttl_seconds = VIAL_UNSAID };
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_decode_int(vial_request_json(request), "n", &fork.count, &error) &&
	                           vial_op_fork(&caller, vial_surface_sandbox(request), &fork, on_forked, request, &error),
	                   &error);
}

static void on_merged(VialSandbox *sandbox, const GError *error, gpointer data)
{
	vial_surface_reply_nothing(NULL, error, data);
}

void vial_podflare_merge_into(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_op_merge(&caller, vial_surface_sandbox(request), vial_request_param(request, "winner"), on_merged, request, &error),
	                   &error);
}
