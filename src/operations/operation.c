/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/operation.h"

#include "service/app.h"
#include "service/pool.h"

static gboolean may(const VialCaller *caller, VialVerb verb, const char *sandbox_id, GError **error)
{
	const VialVerbRules *rules = vial_verb_rules(verb);

	if (!caller->principal)
		return (verb == VIAL_VERB_TUNNEL && g_strcmp0(caller->granted_sandbox, sandbox_id) == 0) ||
		       vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "a key is needed");
	if (caller->principal->role < rules->role)
		return vial_fail(error, VIAL_ERROR_FORBIDDEN, "this key may not do this: %s is for the role %s", rules->name,
		                 vial_role_name(rules->role));
	return TRUE;
}

static VialSandbox *find(const VialCaller *caller, const char *sandbox_id, GError **error)
{
	VialSandbox *sandbox;

	if (caller->principal)
		return vial_sandboxes_find(caller->app, caller->principal, sandbox_id, error);
	sandbox = g_hash_table_lookup(vial_sandboxes_table(caller->app->sandboxes), sandbox_id);
	if (sandbox && vial_sandbox_state(sandbox) != VIAL_STATE_DELETED)
		return sandbox;
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "the sandbox behind this preview is gone");
	return NULL;
}

/* Forks under way count with what they were promised: their children are in the registry only later. */
static gboolean has_room(VialApp *app, guint n_new, GError **error)
{
	guint there = vial_sandboxes_count(app->sandboxes) + app->promised_sandboxes, limit = (guint)app->config->max_sandboxes;

	if (app->is_draining)
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "this Vial is shutting down and takes no new sandboxes");
	if (there + n_new <= limit)
		return TRUE;
	return vial_fail(error, VIAL_ERROR_QUOTA,
	                 "this Vial has %u sandboxes and may have %u, so %u more cannot be made; delete some or raise max_sandboxes", there, limit,
	                 n_new);
}

gboolean vial_operation_admit(const VialCaller *caller, VialVerb verb, const char *sandbox_id, guint n_new, VialSandbox **out_sandbox, GError **error)
{
	const VialVerbRules *rules = vial_verb_rules(verb);
	VialSandbox *sandbox = NULL;

	if (!may(caller, verb, sandbox_id, error))
		return FALSE;
	if (rules->needs_sandbox && !(sandbox = find(caller, sandbox_id, error)))
		return FALSE;
	if (rules->makes_sandboxes && !has_room(caller->app, n_new, error))
		return FALSE;
	if (!rules->is_watching)
		vial_pool_rouse(caller->app->pool);
	if (out_sandbox)
		*out_sandbox = sandbox;
	return TRUE;
}
