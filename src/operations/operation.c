/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/operation.h"

#include <string.h>

#include "operations/entry.h"
#include "service/app.h"
#include "service/pool.h"
#include "service/project.h"
#include "service/quota.h"

/* Whoever has only something that opens one sandbox has nothing anywhere else. */
static gboolean is_granted(const VialCaller *caller, VialVerb verb, const char *sandbox_id)
{
	if (caller->granted_sandbox && (verb != VIAL_VERB_TUNNEL || g_strcmp0(caller->granted_sandbox, sandbox_id) != 0))
		return FALSE;
	if (caller->principal && caller->principal->kind == VIAL_PRINCIPAL_SANDBOX)
		return vial_verb_rules(verb)->needs_sandbox && g_strcmp0(caller->principal->id, sandbox_id) == 0;
	return TRUE;
}

static gboolean may(const VialCaller *caller, VialVerb verb, const char *sandbox_id, GError **error)
{
	const VialVerbRules *rules = vial_verb_rules(verb);

	if (!is_granted(caller, verb, sandbox_id))
		return vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "a key is needed");
	if (!caller->principal)
		return caller->granted_sandbox || vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "a key is needed");
	if (caller->principal->has_ended)
		return vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "this key does not work any more");
	if (caller->principal->role < rules->role)
		return vial_fail_with(error, VIAL_ERROR_FORBIDDEN, json_pack("{s:s}", "role", vial_role_name(rules->role)),
		                      "this key may not do this: %s is for the role %s, and it has the role %s", rules->name,
		                      vial_role_name(rules->role), vial_role_name(caller->principal->role));
	return TRUE;
}

gboolean vial_operation_may_touch(const VialCaller *caller, const VialSandbox *sandbox, GError **error)
{
	const VialAllow *allow = caller->principal ? caller->principal->allow : NULL;
	const char *mode = json_string_value(json_object_get(vial_sandbox_network(sandbox), "mode"));

	if (!vial_allow_has_agent(allow, vial_sandbox_agent(sandbox)))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN, "this key is only for sandboxes of certain agents (allow.agents)");
	if (!vial_allow_has_network_mode(allow, mode))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN, "this key is not for sandboxes whose network is %s (allow.network_modes)", mode);
	return !allow || vial_ceiling_template(caller->app, caller->principal, vial_sandbox_template(sandbox), error);
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

/* Of the whole installation. Forks under way count with what they were promised: their children are in the registry only later. */
gboolean vial_operation_has_room(VialApp *app, guint n_new, GError **error)
{
	guint there = vial_sandboxes_count(app->sandboxes) + vial_quota_promised(app, NULL), limit = (guint)app->config->max_sandboxes;

	if (app->is_draining)
		return vial_fail_with(error, VIAL_ERROR_UNAVAILABLE, json_pack("{s:i}", "retry_after", 1),
		                      "this Vial is shutting down and takes no new sandboxes");
	if (there + n_new <= limit)
		return TRUE;
	return vial_fail_with(error, VIAL_ERROR_QUOTA,
	                      json_pack("{s:{s:s, s:s, s:i, s:i, s:i}}", "limit", "name", "max_sandboxes", "scope", "installation", "limit",
	                                (int)limit, "used", (int)there, "asked", (int)n_new),
	                      "this Vial has %u sandboxes and may have %u, so %u more cannot be made; delete some or raise max_sandboxes", there,
	                      limit, n_new);
}

static gboolean has_good_origin(const VialCaller *caller, GError **error)
{
	if (!caller->origin || !caller->origin->problem)
		return TRUE;
	g_propagate_error(error, g_error_copy(caller->origin->problem));
	return FALSE;
}

static gboolean admit(const VialCaller *caller, VialVerb verb, const char *sandbox_id, guint n_new, VialSandbox **out_sandbox, GError **error)
{
	const VialVerbRules *rules = vial_verb_rules(verb);

	if (!may(caller, verb, sandbox_id, error) || !has_good_origin(caller, error))
		return FALSE;
	if (rules->needs_sandbox && (!(*out_sandbox = find(caller, sandbox_id, error)) || !vial_operation_may_touch(caller, *out_sandbox, error)))
		return FALSE;
	return !rules->makes_sandboxes || vial_operation_has_room(caller->app, n_new, error);
}

gboolean vial_operation_admit(const VialCaller *caller, VialVerb verb, const char *sandbox_id, guint n_new, VialSandbox **out_sandbox, GError **error)
{
	VialSandbox *sandbox = NULL;
	g_autoptr(GError) refusal = NULL;

	if (!admit(caller, verb, sandbox_id, n_new, &sandbox, &refusal)) {
		vial_entry_refuse(caller, verb, sandbox, sandbox_id, refusal);
		g_propagate_error(error, g_steal_pointer(&refusal));
		return FALSE;
	}
	if (!vial_verb_rules(verb)->is_watching)
		vial_pool_rouse(caller->app->pool);
	if (out_sandbox)
		*out_sandbox = sandbox;
	return TRUE;
}

/* What can be asked of an agent whose records are damaged: what there is of sessions, and to end them and it. */
static gboolean needs_whole_agent(VialVerb verb)
{
	return verb != VIAL_VERB_AGENT_DELETE && verb != VIAL_VERB_SESSION_READ && verb != VIAL_VERB_SESSION_END && verb != VIAL_VERB_USER_FORGET;
}

static gboolean admit_agent(const VialCaller *caller, VialVerb verb, const char *name, VialAgent **out_agent, GError **error)
{
	if (!may(caller, verb, NULL, error) || !has_good_origin(caller, error))
		return FALSE;
	if (!name)
		return TRUE;
	/* The same for one that is not there: what a key is not for is none of its business. */
	if (!vial_allow_has_agent(caller->principal->allow, name))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN, "this key is only for certain agents, and %.64s is none of them (allow.agents)", name);
	if (!out_agent)
		return TRUE;
	*out_agent = vial_agents_find(caller->app->agents, caller->principal->project, name);
	if (!*out_agent)
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no agent %.64s", name);
	return !needs_whole_agent(verb) || vial_agent_check_whole(*out_agent, error);
}

gboolean vial_operation_admit_agent(const VialCaller *caller, VialVerb verb, const char *name, VialAgent **out_agent, GError **error)
{
	VialAbout about = caller->about ? *caller->about : (VialAbout){ .agent = name && vial_agent_name_is_valid(name) ? name : NULL };
	VialCaller told = *caller;
	g_autoptr(GError) refusal = NULL;

	if (admit_agent(caller, verb, name, out_agent, &refusal)) {
		if (!vial_verb_rules(verb)->is_watching)
			vial_pool_rouse(caller->app->pool);
		return TRUE;
	}
	told.about = &about;
	vial_entry_refuse(&told, verb, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return FALSE;
}

const char *vial_operation_project(const VialCaller *caller, VialVerb verb, const char *wanted, GError **error)
{
	const VialIdentity *principal = caller->principal;
	g_autoptr(GError) refusal = NULL;

	if (!wanted || strcmp(wanted, principal->project) == 0)
		return principal->project;
	if (vial_identity_is_operator(principal) && vial_projects_find(caller->app->projects, wanted))
		return wanted;
	/* Whether it exists is nobody else's business; that there are others is no secret. */
	if (strcmp(wanted, "*") == 0 && !vial_identity_is_operator(principal))
		vial_fail_with(&refusal, VIAL_ERROR_FORBIDDEN, json_pack("{s:s}", "role", vial_role_name(VIAL_ROLE_OPERATOR)),
		               "all projects are for the role operator, and this key has the role %s", vial_role_name(principal->role));
	else
		refusal = g_error_new(VIAL_ERROR, VIAL_ERROR_NOT_FOUND, "there is no project %.64s", wanted);
	vial_entry_refuse(caller, verb, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return NULL;
}
