/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as this dialect shows it: Sandbox (what creating answers), Detail and Listed. */
#include "operations/bearer.h"
#include "surfaces/e2b/control.h"
#include "surfaces/e2b/token.h"
#include "util/json.h"
#include "util/time.h"

/* What the SDKs may expect of the data plane: each of their features asks for a version. */
#define ENVD_VERSION "0.6.4"
/* Of a service with many nodes: which one it is on. */
#define CLIENT_ID "vial"
/* The end of one that has none: the field is required. */
#define NO_END "2999-12-31T23:59:59Z"

json_t *vial_e2b_sandbox_json(VialRequest *request, const VialSandbox *sandbox)
{
	VialApp *app = vial_surface_app(request);
	g_autofree char *token = vial_e2b_token(app, sandbox), *traffic = vial_e2b_traffic_token(app, sandbox);

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:n}", "templateID", vial_sandbox_template(sandbox), "sandboxID", vial_sandbox_id(sandbox),
	                 "clientID", CLIENT_ID, "envdVersion", ENVD_VERSION, "envdAccessToken", token, "trafficAccessToken", traffic, "domain");
}

static json_t *time_json(gint64 time_ms)
{
	char text[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(text, time_ms);
	return json_string(text);
}

gboolean vial_e2b_is_asleep(const VialSandbox *sandbox)
{
	VialState state = vial_sandbox_state(sandbox);

	return state == VIAL_STATE_PAUSED || state == VIAL_STATE_HIBERNATING || state == VIAL_STATE_HIBERNATED;
}

json_t *vial_e2b_listed_json(const VialSandbox *sandbox)
{
	gint64 expires_at_ms = vial_sandbox_expires_at_ms(sandbox);
	const VialLimits *limits = vial_sandbox_limits(sandbox);
	json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "templateID", vial_sandbox_template(sandbox), "sandboxID",
	                         vial_sandbox_id(sandbox), "clientID", CLIENT_ID, "envdVersion", ENVD_VERSION, "cpuCount",
	                         (json_int_t)MAX(limits->cpu + 0.999, 1), "memoryMB", (json_int_t)limits->memory_mb, "diskSizeMB",
	                         (json_int_t)limits->disk_mb, "state", vial_e2b_is_asleep(sandbox) ? "paused" : "running");

	json_object_set_new(json, "startedAt", time_json(vial_sandbox_created_at_ms(sandbox)));
	json_object_set_new(json, "endAt", expires_at_ms ? time_json(expires_at_ms) : json_string(NO_END));
	json_object_set(json, "metadata", (json_t *)vial_sandbox_metadata(sandbox));
	return json;
}

json_t *vial_e2b_detail_json(VialRequest *request, const VialSandbox *sandbox)
{
	g_autofree char *token = vial_e2b_token(vial_surface_app(request), sandbox);
	json_t *json = vial_e2b_listed_json(sandbox);

	if (vial_bearer_is_for(vial_request_identity(request)))
		json_object_set_new(json, "envdAccessToken", json_string(token));
	json_object_set_new(json, "lifecycle",
	                    json_pack("{s:b, s:s}", "autoResume", vial_sandbox_wakes_by_use(sandbox), "onTimeout",
	                              vial_sandbox_rests_when_over(sandbox) ? "pause" : "kill"));
	json_object_set_new(json, "network", vial_e2b_network_json(vial_sandbox_network(sandbox)));
	json_object_set_new(json, "allowInternetAccess",
	                    json_boolean(g_strcmp0(json_string_value(json_object_get(vial_sandbox_network(sandbox), "mode")), "open") == 0));
	return json;
}
