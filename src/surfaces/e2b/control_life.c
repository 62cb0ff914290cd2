/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a sandbox lives, and its sleep: what they call paused rests (service/sandbox.h) until somebody connects to it, or, where it was made with
 * autoResume, uses it. A time to live that is over ends in rest where autoPause was said.
 */
#include "operations/limits.h"
#include "operations/sandboxes.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"

gboolean vial_e2b_decode_ttl(const json_t *body, const char *field, gint64 *ttl_seconds, GError **error)
{
	if (!vial_decode_int(body, field, ttl_seconds, error))
		return FALSE;
	if (*ttl_seconds == 0)
		*ttl_seconds = 1;
	return TRUE;
}

static void on_changed(VialSandbox *sandbox, const GError *error, gpointer data)
{
	vial_surface_reply_nothing(NULL, error, data);
}

static void change(VialRequest *request, const char *field, gboolean only_longer)
{
	VialCaller caller = vial_surface_question(request);
	VialLifecycleRequest lifecycle = {
		.ttl_seconds = VIAL_TIMEOUT_DEFAULT_SECONDS, .idle_seconds = VIAL_UNSAID, .persistent = -1, .only_longer = only_longer
	};
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_e2b_is_alive(request, &error) &&
	                           vial_e2b_decode_ttl(vial_request_json(request), field, &lifecycle.ttl_seconds, &error) &&
	                           vial_op_lifecycle_change(&caller, vial_surface_sandbox(request), &lifecycle, on_changed, request, &error),
	                   &error);
}

/* From now on, which may be a shorter time than is left. */
void vial_e2b_timeout(VialRequest *request)
{
	change(request, "timeout", FALSE);
}

/* So long at least. */
void vial_e2b_refresh(VialRequest *request)
{
	change(request, "duration", TRUE);
}

gboolean vial_e2b_refuse_without_memory(const json_t *body, const char *field, GError **error)
{
	gboolean memory = TRUE;

	if (!vial_decode_bool(body, field, &memory, error))
		return FALSE;
	return memory || vial_fail_with(error, VIAL_ERROR_INVALID, json_pack("{s:s}", "error_code", "snapshot_filesystem_only_disabled"),
	                                "%s: a sandbox sleeps here with its memory, and goes on where it was; its files alone are not kept", field);
}

void vial_e2b_pause(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_e2b_is_alive(request, &error) && vial_e2b_refuse_without_memory(vial_request_json(request), "memory", &error) &&
	                           vial_op_rest(&caller, vial_surface_sandbox(request), vial_surface_reply_done, request, &error),
	                   &error);
}

/* Coming back */

static void on_connected(VialSandbox *sandbox, gboolean was_asleep, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = sandbox ? vial_e2b_sandbox_json(data, sandbox) : NULL;

	if (was_asleep)
		vial_surface_reply_created(document, error, data);
	else
		vial_surface_reply_ok(document, error, data);
}

static gboolean decode(const json_t *body, VialConnectRequest *out, GError **error)
{
	gboolean rests = out->rests_when_over > 0;

	if (!vial_e2b_refuse_without_memory(body, "memory", error) || !vial_e2b_decode_ttl(body, "timeout", &out->ttl_seconds, error) ||
	    !vial_decode_bool(body, "autoPause", &rests, error))
		return FALSE;
	if (json_is_boolean(json_object_get(body, "autoPause")))
		out->rests_when_over = rests;
	return TRUE;
}

static void come_back(VialRequest *request, gboolean must_sleep)
{
	VialCaller caller = vial_surface_question(request);
	VialConnectRequest connect = { .ttl_seconds = VIAL_TIMEOUT_DEFAULT_SECONDS, .rests_when_over = -1, .must_sleep = must_sleep };
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_e2b_is_alive(request, &error) && decode(vial_request_json(request), &connect, &error) &&
	                           vial_op_connect(&caller, vial_surface_sandbox(request), &connect, on_connected, request, &error),
	                   &error);
}

void vial_e2b_connect(VialRequest *request)
{
	come_back(request, FALSE);
}

/* Of old clients: only of what sleeps. */
void vial_e2b_resume(VialRequest *request)
{
	come_back(request, TRUE);
}
