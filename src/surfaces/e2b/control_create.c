/* SPDX-License-Identifier: Apache-2.0 */
/* A new sandbox. Both versions of the route take the same fields; what there is nothing like here is refused, never left out in silence. */
#include "operations/limits.h"
#include "operations/sandboxes.h"
#include "surfaces/e2b/control.h"
#include "util/arena.h"
#include "util/json.h"

static void on_created(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = sandbox ? vial_e2b_sandbox_json(data, sandbox) : NULL;

	vial_surface_reply_created(document, error, data);
}

/* Empty lists and objects are as good as nothing: SDKs send them. */
static gboolean says(const json_t *body, const char *field)
{
	const json_t *value = json_object_get(body, field);

	return value && !json_is_null(value) && !(json_is_array(value) && json_array_size(value) == 0) &&
	       !(json_is_object(value) && json_object_size(value) == 0);
}

static gboolean refuse_unknown(const json_t *body, GError **error)
{
	static const struct {
		const char *field, *why;
	} refused[] = {
		{ "volumeMounts", "there are no volumes here yet; keep files in the sandbox, and pause it instead of killing it" },
		{ "mcp", "no template here has an MCP gateway in it; start the server you need as a command in the sandbox" },
		{ "iam", "there are no workload identities here; give the sandbox what it needs in envVars" },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(refused); i++)
		if (says(body, refused[i].field))
			return vial_fail(error, VIAL_ERROR_INVALID, "%s: %s", refused[i].field, refused[i].why);
	return TRUE;
}

static gboolean decode(VialArena *arena, const VialCaller *caller, const json_t *body, VialCreateRequest *out, GError **error)
{
	json_t *network = NULL, *resume = NULL;

	*out = (VialCreateRequest){
		.cpu = (double)VIAL_UNSAID, .memory_mb = VIAL_UNSAID, .ttl_seconds = VIAL_TIMEOUT_DEFAULT_SECONDS, .idle_seconds = 0
	};
	if (!vial_decode_text(body, "templateID", &out->origin, error) || !vial_e2b_decode_ttl(body, "timeout", &out->ttl_seconds, error) ||
	    !vial_decode_object(body, "metadata", &out->metadata, error) || !vial_decode_object(body, "envVars", &out->env, error) ||
	    !vial_decode_bool(body, "autoPause", &out->rests_when_over, error) || !vial_decode_object(body, "autoResume", &resume, error) ||
	    !vial_decode_bool(resume, "enabled", &out->wakes_by_use, error) || !vial_e2b_refuse_without_memory(body, "autoPauseMemory", error) ||
	    !vial_decode_object(body, "network", &network, error) || !refuse_unknown(body, error) ||
	    !vial_e2b_network_decode(caller, network, json_object_get(body, "allow_internet_access"), &out->network, error))
		return FALSE;
	if (!out->origin)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"templateID\" is required");
	out->origin = vial_e2b_plain_name(arena, out->origin);
	return TRUE;
}

void vial_e2b_create(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	VialCreateRequest create = { 0 };
	g_autoptr(GError) error = NULL;
	VialArena arena;

	vial_arena_init(&arena);
	vial_surface_begun(request,
	                   decode(&arena, &caller, vial_request_json(request), &create, &error) &&
	                           vial_op_sandbox_create(&caller, &create, on_created, request, &error),
	                   &error);
	json_decref(create.network);
	vial_arena_clear(&arena);
}
