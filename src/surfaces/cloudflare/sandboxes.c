/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes as a whole: made, ended, asked whether they are there. And what is not offered: buckets that are mounted. */
#include "operations/sandboxes.h"

#include "operations/limits.h"
#include "surfaces/cloudflare/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

#define NO_BUCKETS "buckets cannot be mounted into a sandbox of Vial: write the files into it, or let it fetch them over its network"

json_t *vial_cloudflare_error_body(const VialRequest *request, unsigned status, const GError *error)
{
	g_autofree char *sentence = g_utf8_make_valid(error->message, -1);

	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "code", vial_error_type(error), "error", sentence, "message", sentence, "type",
	                 vial_error_type(error), "request_id", vial_request_id(request));
}

static void on_created(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = sandbox ? json_pack("{s:s}", "id", vial_sandbox_id(sandbox)) : NULL;

	vial_surface_reply_ok(document, error, data);
}

/* The JavaScript client tells the time limits and ports that it keeps to by itself. */
static gboolean check_options(VialRequest *request, GError **error)
{
	json_t *mounts = NULL;

	if (!vial_decode_list(vial_request_json(request), "mounts", &mounts, error))
		return FALSE;
	return json_array_size(mounts) == 0 || vial_fail(error, VIAL_ERROR_INVALID, "%s", NO_BUCKETS);
}

void vial_cloudflare_create(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	VialCreateRequest create = { .template_name = vial_request_param(request, "template"),
		                     .cpu = (double)VIAL_UNSAID,
		                     .memory_mb = VIAL_UNSAID,
		                     .ttl_seconds = VIAL_UNSAID,
		                     .idle_seconds = VIAL_UNSAID };
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, check_options(request, &error) && vial_op_sandbox_create(&caller, &create, on_created, request, &error), &error);
}

void vial_cloudflare_delete(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_sandbox_delete(&caller, vial_surface_sandbox(request), vial_surface_reply_done, request, &error), &error);
}

/* One that sleeps counts: the next call wakes it, and all that was in it is there. */
void vial_cloudflare_running(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	VialSandbox *sandbox = vial_op_sandbox_get(&caller, vial_surface_sandbox(request), &error);
	gboolean is_there = sandbox && vial_sandbox_state(sandbox) != VIAL_STATE_FAILED && vial_sandbox_state(sandbox) != VIAL_STATE_DELETED;

	vial_surface_reply_now(request, sandbox ? json_pack("{s:b}", "running", is_there) : NULL, error);
}

void vial_cloudflare_mount(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;

	if (vial_op_sandbox_get(&caller, vial_surface_sandbox(request), &error))
		vial_fail(&error, VIAL_ERROR_INVALID, "%s", NO_BUCKETS);
	vial_request_reply_error(request, error);
}
