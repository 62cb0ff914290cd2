/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as this dialect shows it: Sandbox (what creating answers), Detail and Listed. */
#include "surfaces/e2b/control.h"
#include "surfaces/e2b/token.h"
#include "util/json.h"

/* What the SDKs may expect of the data plane: each of their features asks for a version. */
#define ENVD_VERSION "0.6.4"
/* Of a service with many nodes: which one it is on. */
#define CLIENT_ID "vial"

json_t *vial_e2b_sandbox_json(VialRequest *request, const VialSandbox *sandbox)
{
	g_autofree char *token = vial_e2b_token(vial_surface_app(request), sandbox);

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:n, s:n}", "templateID", vial_sandbox_template(sandbox), "sandboxID", vial_sandbox_id(sandbox),
	                 "clientID", CLIENT_ID, "envdVersion", ENVD_VERSION, "envdAccessToken", token, "trafficAccessToken", "domain");
}

static void take(json_t *into, const char *name, const json_t *from, const char *field)
{
	json_object_set(into, name, json_object_get(from, field));
}

json_t *vial_e2b_listed_json(VialRequest *request, const VialSandbox *sandbox)
{
	g_autoptr(json_t) shown = vial_sandbox_json(sandbox);
	const VialLimits *limits = vial_sandbox_limits(sandbox);
	VialState state = vial_sandbox_state(sandbox);
	json_t *json = json_pack(
		"{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "templateID", vial_sandbox_template(sandbox), "sandboxID", vial_sandbox_id(sandbox),
		"clientID", CLIENT_ID, "envdVersion", ENVD_VERSION, "cpuCount", (json_int_t)MAX(limits->cpu + 0.999, 1), "memoryMB",
		(json_int_t)limits->memory_mb, "diskSizeMB", (json_int_t)limits->disk_mb, "state",
		state == VIAL_STATE_PAUSED || state == VIAL_STATE_HIBERNATING || state == VIAL_STATE_HIBERNATED ? "paused" : "running");

	take(json, "startedAt", shown, "created_at");
	take(json, "endAt", shown, "expires_at");
	json_object_set(json, "metadata", (json_t *)vial_sandbox_metadata(sandbox));
	return json;
}

json_t *vial_e2b_detail_json(VialRequest *request, const VialSandbox *sandbox)
{
	g_autofree char *token = vial_e2b_token(vial_surface_app(request), sandbox);
	json_t *json = vial_e2b_listed_json(request, sandbox);

	json_object_set_new(json, "envdAccessToken", json_string(token));
	return json;
}
