/* SPDX-License-Identifier: Apache-2.0 */
#include "service/calls.h"

#include "util/id.h"
#include "util/json.h"
#include "util/time.h"

struct VialCall {
	VialStore *store;
	char *id;
	char *sandbox_id;
	const char *kind;
	json_t *detail;
	gint64 started_at;
};

static void put(const VialCall *call, const char *status, gint64 ended_at)
{
	g_autofree char *detail = vial_json_dump(call->detail);
	VialCallRecord record = {
		.id = call->id,
		.sandbox_id = call->sandbox_id,
		.kind = (char *)call->kind,
		.status = (char *)status,
		.detail = detail,
		.started_at = call->started_at,
		.ended_at = ended_at,
	};

	vial_store_put_call(call->store, &record, NULL, NULL);
}

VialCall *vial_call_begin(VialSandbox *sandbox, const char *kind, json_t *detail)
{
	VialCall *call = g_new0(VialCall, 1);

	call->store = sandbox->app->store;
	call->id = vial_id_new();
	call->sandbox_id = g_strdup(sandbox->id);
	call->kind = kind;
	call->detail = detail;
	call->started_at = vial_time_now_ms();
	put(call, "running", 0);
	return call;
}

const char *vial_call_id(const VialCall *call)
{
	return call->id;
}

void vial_call_end(VialCall *call, const char *status, json_t *outcome)
{
	if (outcome)
		json_object_update(call->detail, outcome);
	json_decref(outcome);
	put(call, status, vial_time_now_ms());
	json_decref(call->detail);
	g_free(call->id);
	g_free(call->sandbox_id);
	g_free(call);
}
