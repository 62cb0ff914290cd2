/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an agent (ending.h): its sandboxes, those that were just being made, and the forks of them. */
#include <string.h>

#include "service/agents_private.h"
#include "service/ending.h"
#include "service/quota.h"
#include "service/sandbox.h"
#include "service/sessions.h"

/* Not a pointer to it: its project may be deleted meanwhile, and it with that. */
typedef struct {
	VialApp *app;
	char *id, *project, *name;
} Which;

static void which_free(gpointer data)
{
	Which *which = data;

	g_free(which->id);
	g_free(which->project);
	g_free(which->name);
	g_free(which);
}

static VialAgent *find(const Which *which)
{
	VialAgent *agent = vial_agents_find_any(which->app->agents, which->project, which->name);

	return agent && strcmp(agent->id, which->id) == 0 ? agent : NULL;
}

static gboolean is_still_there(gpointer owner)
{
	return find(owner) != NULL;
}

static gboolean owns(gpointer owner, VialSandbox *sandbox)
{
	const Which *which = owner;

	return g_strcmp0(vial_sandbox_agent(sandbox), which->name) == 0 && strcmp(vial_sandbox_project(sandbox), which->project) == 0;
}

/* A fork under way may be one of a sandbox of ours. */
static guint count_others(VialEnding *ending, gpointer owner)
{
	const Which *which = owner;

	return vial_sessions_count(find(which)) + vial_quota_promised(which->app, which->project);
}

static void forget(gpointer owner, VialStoreDone done, gpointer data)
{
	vial_agent_forget(find(owner), done, data);
}

static const VialEndingKind kind = {
	.what = "agent",
	.still = is_still_there,
	.owns = owns,
	.others = count_others,
	.last = forget,
	.unref = which_free,
};

static void on_marked(const GError *error, gpointer data)
{
	VialAgent *agent = find(vial_ending_owner(data));

	if (error && agent)
		agent->is_deleting = FALSE;
	if (error)
		return vial_ending_over(error, data);
	if (agent)
		vial_sessions_cancel(agent);
	vial_ending_start(data);
}

static VialEnding *ending_new(VialAgent *agent, VialStoreDone done, gpointer data)
{
	Which *which = g_new(Which, 1);

	*which = (Which){ agent->app, g_strdup(agent->id), g_strdup(agent->project), g_strdup(agent->name) };
	return vial_ending_new(agent->app, &kind, agent->name, which, done, data);
}

void vial_agent_delete(VialAgent *agent, VialStoreDone done, gpointer data)
{
	agent->is_deleting = TRUE;
	vial_agent_store(agent, on_marked, ending_new(agent, done, data));
}

void vial_agents_resume(VialApp *app)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->agents->by_name);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (((VialAgent *)value)->is_deleting)
			on_marked(NULL, ending_new(value, NULL, NULL));
}
