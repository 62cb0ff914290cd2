/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon about itself, and about who asks: healthz and me. */
#include <string.h>

#include "audit/audit.h"
#include "service/app.h"
#include "service/pool.h"
#include "service/project.h"
#include "service/quota.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"
#include "util/time.h"

/* Whoever watches from outside must see that code is refused, whatever the reason. */
static const char *health(VialApp *app)
{
	if (app->is_draining)
		return "draining";
	return vial_audit_check_room(app->audit, NULL) ? "ok" : "unrecorded";
}

void vial_api_healthz(VialRequest *request)
{
	VialApp *app = vial_surface_app(request);
	const char *status = health(app);

	vial_request_reply_json(request, strcmp(status, "ok") == 0 ? 200 : 503,
	                        json_pack("{s:s, s:s, s:s}", "status", status, "version", VIAL_VERSION, "engine", app->engine->ops->name));
}

/* What he may have, and has. */
static json_t *limits_json(VialApp *app, const VialIdentity *identity)
{
	const VialProject *project = vial_projects_find(app->projects, identity->project);
	json_t *json = json_pack("{s:o, s:o}", "project", project ? vial_quotas_json(project->quotas) : json_object(), "used",
	                         vial_quota_used_json(app, identity->project));

	if (identity->limits)
		json_object_set_new(json, "key", vial_quotas_json(identity->limits));
	return json;
}

static json_t *principal_json(const VialIdentity *identity)
{
	char expires[VIAL_TIME_TEXT_SIZE];
	json_t *json = json_pack("{s:s, s:s, s:s}", "kind", vial_principal_kind_name(identity->kind), "id", identity->id, "name", identity->name);

	if (identity->expires_at_ms > 0) {
		vial_time_fill(expires, identity->expires_at_ms);
		json_object_set_new(json, "expires_at", json_string(expires));
	}
	if (identity->allow)
		json_object_set_new(json, "allow", vial_allow_json(identity->allow));
	return json;
}

void vial_api_me(VialRequest *request)
{
	const VialIdentity *identity = vial_request_identity(request);
	VialApp *app = vial_surface_app(request);
	gboolean shows_pool = app->pool && vial_identity_is_operator(identity);
	json_t *me = json_pack("{s:s*, s:s, s:s, s:s*, s:s, s:s, s:s, s:s*, s:o*, s:s*}", "key_id",
	                       identity->kind == VIAL_PRINCIPAL_KEY ? identity->id : NULL, "project", identity->project, "role",
	                       vial_role_name(identity->role), "label", identity->name, "engine", app->engine->ops->name, "engine_version",
	                       app->engine->ops->version(app->engine), "engine_reason", app->engine_reason, "engine_warning", app->engine_warning,
	                       "pool", shows_pool ? vial_pool_json(app->pool) : NULL, "pool_state", shows_pool ? vial_pool_state(app->pool) : NULL);

	json_object_set_new(me, "principal", principal_json(identity));
	json_object_set_new(me, "limits", limits_json(app, identity));
	vial_request_reply_json(request, 200, me);
}
