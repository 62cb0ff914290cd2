/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an agent, in rounds as that of a project: its sandboxes are deleted, and what comes to be meanwhile (one that was just being made, a
 * fork that was under way) in the next round, until a round finds nothing.
 */
#include <string.h>

#include "service/agents_private.h"
#include "service/quota.h"
#include "service/sandbox.h"
#include "service/sessions.h"
#include "util/log.h"

#define ROUND_MS 200
#define MAX_ROUNDS 1500

typedef struct {
	VialApp *app;
	char *id, *project, *name; /* not a pointer to it: its project may be deleted meanwhile, and it with that */
	guint pending;
	guint rounds;
	GHashTable *told; /* ids of sandboxes whose end is on record */
	VialStoreDone done;
	gpointer data;
} Ending;

static gboolean next_round(gpointer data);

static void over(const GError *error, gpointer data)
{
	Ending *ending = data;

	if (ending->done)
		ending->done(error, ending->data);
	g_hash_table_unref(ending->told);
	g_free(ending->id);
	g_free(ending->project);
	g_free(ending->name);
	g_free(ending);
}

static void step(Ending *ending)
{
	if (--ending->pending == 0)
		g_timeout_add(ending->rounds > 1 ? ROUND_MS : 0, next_round, ending);
}

static void on_gone(VialSandbox *sandbox, const GError *error, gpointer data)
{
	step(data);
}

static guint delete_sandboxes(Ending *ending)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(ending->app->sandboxes);
	guint found = 0;

	for (guint i = 0; i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];

		if (g_strcmp0(vial_sandbox_agent(sandbox), ending->name) != 0 || strcmp(vial_sandbox_project(sandbox), ending->project) != 0)
			continue;
		found++;
		ending->pending++;
		if (g_hash_table_add(ending->told, g_strdup(vial_sandbox_id(sandbox))))
			vial_sandbox_record(sandbox, "sandbox.delete", "its agent is deleted");
		vial_sandbox_delete(sandbox, on_gone, ending);
	}
	return found;
}

static VialAgent *find(const Ending *ending)
{
	VialAgent *agent = vial_agents_find_any(ending->app->agents, ending->project, ending->name);

	return agent && strcmp(agent->id, ending->id) == 0 ? agent : NULL;
}

static gboolean next_round(gpointer data)
{
	Ending *ending = data;
	VialAgent *agent = find(ending);
	guint found;

	if (!agent) {
		over(NULL, ending);
		return G_SOURCE_REMOVE;
	}
	ending->rounds++;
	ending->pending = 1;
	/* A fork under way may be one of a sandbox of ours. */
	found = delete_sandboxes(ending) + vial_sessions_count(agent) + vial_quota_promised(agent->app, agent->project);
	if (found == 0) {
		vial_agent_forget(agent, over, ending);
		return G_SOURCE_REMOVE;
	}
	if (ending->rounds == MAX_ROUNDS) {
		g_autoptr(GError) error = g_error_new(VIAL_ERROR, VIAL_ERROR_TIMEOUT,
		                                      "not everything of the agent could be ended yet; viald tries again when it is started next");

		vial_log_error("agent", "could not be deleted wholly", "agent", agent->name);
		over(error, ending);
		return G_SOURCE_REMOVE;
	}
	step(ending);
	return G_SOURCE_REMOVE;
}

static void on_marked(const GError *error, gpointer data)
{
	Ending *ending = data;

	VialAgent *agent = find(ending);

	if (error && agent)
		agent->is_deleting = FALSE;
	if (error)
		return over(error, ending);
	if (agent)
		vial_sessions_cancel(agent);
	g_timeout_add(0, next_round, ending);
}

static Ending *ending_new(VialAgent *agent, VialStoreDone done, gpointer data)
{
	Ending *ending = g_new0(Ending, 1);

	*ending = (Ending){ .app = agent->app,
		            .id = g_strdup(agent->id),
		            .project = g_strdup(agent->project),
		            .name = g_strdup(agent->name),
		            .done = done,
		            .data = data };
	ending->told = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	return ending;
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
