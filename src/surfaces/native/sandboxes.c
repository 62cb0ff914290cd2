/* SPDX-License-Identifier: Apache-2.0 */
/* The sandboxes resource: create, list, show, delete, and their lifecycle settings. */
#include "operations/sandboxes.h"

#include <string.h>

#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/podflare/handlers.h"
#include "surfaces/shared/pandastack.h"
#include "surfaces/shared/podflare.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

#define METADATA_PREFIX "metadata."

static json_t *shown(const VialRequest *request, const VialSandbox *sandbox)
{
	json_t *document = vial_sandbox_json(sandbox);

	return vial_surface_is_pandastack(request) ? vial_pandastack_sandbox(document) : document;
}

static void on_created(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = sandbox ? shown(data, sandbox) : NULL;

	vial_surface_reply_created(document, error, data);
}

/* There are none yet, and whoever asks for one must not get a sandbox that forgets what it was to keep. */
static gboolean has_no_volumes(const json_t *body, GError **error)
{
	const json_t *volumes = json_object_get(body, "volumes");

	return !volumes || json_is_null(volumes) || (json_is_array(volumes) && json_array_size(volumes) == 0) ||
	       vial_fail(error, VIAL_ERROR_INVALID, VIAL_NO_VOLUMES);
}

static gboolean decode_create(const json_t *body, VialCreateRequest *out, GError **error)
{
	*out = (VialCreateRequest){ .cpu = (double)VIAL_UNSAID, .memory_mb = VIAL_UNSAID, .ttl_seconds = VIAL_UNSAID, .idle_seconds = VIAL_UNSAID };
	return has_no_volumes(body, error) && vial_decode_text(body, "template", &out->template_name, error) &&
	       vial_decode_text(body, "engine", &out->engine, error) && vial_decode_text(body, "from_snapshot", &out->from_snapshot, error) &&
	       vial_decode_text(body, "tier", &out->tier, error) && vial_decode_real(body, "cpu", &out->cpu, error) &&
	       vial_decode_int(body, "memory_mb", &out->memory_mb, error) && vial_decode_int(body, "ttl_seconds", &out->ttl_seconds, error) &&
	       vial_decode_int(body, "idle_seconds", &out->idle_seconds, error) && vial_decode_text(body, "on_idle", &out->on_idle, error) &&
	       vial_decode_bool(body, "persistent", &out->persistent, error) && vial_decode_object(body, "metadata", &out->metadata, error) &&
	       vial_decode_object(body, "env", &out->env, error) && vial_decode_object(body, "network", &out->network, error);
}

static void create(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialCreateRequest wanted;

	vial_surface_begun(request,
	                   decode_create(vial_request_json(request), &wanted, &error) &&
	                           vial_op_sandbox_create(&caller, &wanted, on_created, request, &error),
	                   &error);
}

void vial_api_sandbox_create(VialRequest *request)
{
	if (vial_podflare_is_create(request))
		vial_podflare_create(request);
	else
		create(request);
}

static void read_metadata_filter(const char *name, const char *value, gpointer data)
{
	if (g_str_has_prefix(name, METADATA_PREFIX) && value)
		json_object_set_new(data, name + strlen(METADATA_PREFIX), json_string(value));
}

void vial_api_sandbox_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	g_autoptr(json_t) metadata = json_object();
	g_autoptr(GPtrArray) list = NULL;
	VialSandboxFilter filter = { .state = vial_request_query(request, "state"),
		                     .metadata = metadata,
		                     .cursor = vial_request_query(request, "cursor"),
		                     .limit = VIAL_UNSAID };
	const char *next = NULL;
	GError *error = NULL;
	json_t *items;

	vial_request_each_query(request, read_metadata_filter, metadata);
	if (!vial_decode_query_int(request, "limit", &filter.limit, &error) || !(list = vial_op_sandbox_list(&caller, &filter, &next, &error)))
		return vial_request_reply_error(request, error);
	items = json_array();
	for (guint i = 0; i < list->len; i++)
		json_array_append_new(items, shown(request, list->pdata[i]));
	if (filter.limit != VIAL_UNSAID || filter.cursor)
		items = json_pack("{s:o, s:s?}", "items", items, "next", next);
	vial_request_reply_json(request, 200, items);
}

void vial_api_sandbox_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	VialSandbox *sandbox = vial_op_sandbox_get(&caller, vial_surface_sandbox(request), &error);

	vial_surface_reply_now(request, sandbox ? shown(request, sandbox) : NULL, error);
}

void vial_api_sandbox_delete(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_sandbox_delete(&caller, vial_surface_sandbox(request), vial_surface_reply_done, request, &error), &error);
}

void vial_api_lifecycle_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	VialSandbox *sandbox = vial_op_sandbox_get(&caller, vial_surface_sandbox(request), &error);

	vial_surface_reply_now(request, sandbox ? vial_sandbox_lifecycle_json(sandbox) : NULL, error);
}

static void on_changed(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = sandbox ? vial_sandbox_lifecycle_json(sandbox) : NULL;

	vial_surface_reply_ok(document, error, data);
}

/* Absent means "as it is"; null could as well be meant as "none". */
static gboolean decode_lifecycle(const json_t *body, VialLifecycleRequest *out, GError **error)
{
	static const char *const fields[] = { "ttl_seconds", "idle_seconds", "on_idle", "persistent" };
	gboolean persistent = -1;

	for (gsize i = 0; i < G_N_ELEMENTS(fields); i++)
		if (json_is_null(json_object_get(body, fields[i])))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must not be null: give a value or leave it out", fields[i]);
	*out = (VialLifecycleRequest){ .ttl_seconds = VIAL_UNSAID, .idle_seconds = VIAL_UNSAID };
	if (!vial_decode_int(body, "ttl_seconds", &out->ttl_seconds, error) || !vial_decode_int(body, "idle_seconds", &out->idle_seconds, error) ||
	    !vial_decode_text(body, "on_idle", &out->on_idle, error) || !vial_decode_bool(body, "persistent", &persistent, error))
		return FALSE;
	out->persistent = persistent;
	return TRUE;
}

void vial_api_lifecycle_patch(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialLifecycleRequest lifecycle;

	vial_surface_begun(request,
	                   decode_lifecycle(vial_request_json(request), &lifecycle, &error) &&
	                           vial_op_lifecycle_change(&caller, vial_surface_sandbox(request), &lifecycle, on_changed, request, &error),
	                   &error);
}
