/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In rounds, as a project ends: a fork or a snapshot that was under way is found by the next one. Sessions are ended in the first round only: whoever
 * calls for the user again meanwhile begins anew.
 */
#include "service/forget.h"

#include <string.h>

#include "service/sandbox_private.h"
#include "service/sessions.h"
#include "service/snapshot.h"

#define ROUND_MS 100
#define MAX_ROUNDS 100
#define WHY "everything of its user was forgotten"

typedef struct {
	VialApp *app;
	char *project, *user;
	GPtrArray *agents; /* names */
	gboolean is_all;
	guint pending, rounds;
	gboolean has_found; /* something, in this round */
	GHashTable *counted;
	VialForgotten forgotten;
	GError *error;
	VialForgetDone done;
	gpointer data;
} Forgetting;

static gboolean next_round(gpointer data);

static void over(Forgetting *forgetting)
{
	forgetting->done(&forgetting->forgotten, forgetting->error, forgetting->data);
	g_clear_error(&forgetting->error);
	g_hash_table_unref(forgetting->counted);
	g_ptr_array_unref(forgetting->agents);
	g_free(forgetting->project);
	g_free(forgetting->user);
	g_free(forgetting);
}

static void step(Forgetting *forgetting)
{
	if (--forgetting->pending > 0)
		return;
	if (!forgetting->has_found || forgetting->rounds == MAX_ROUNDS)
		over(forgetting);
	else
		g_timeout_add(forgetting->rounds > 1 ? ROUND_MS : 0, next_round, forgetting);
}

/* A failure is told only if it is the last word: the next round may get it. */
static void settle(Forgetting *forgetting, const GError *error)
{
	g_clear_error(&forgetting->error);
	if (error)
		forgetting->error = g_error_copy(error);
	step(forgetting);
}

static void on_sessions_ended(const GError *error, gpointer data)
{
	settle(data, error);
}

static void on_sandbox_gone(VialSandbox *sandbox, const GError *error, gpointer data)
{
	settle(data, error);
}

static gboolean is_of(const Forgetting *forgetting, const char *project, const char *agent, const char *user)
{
	if (g_strcmp0(user, forgetting->user) != 0 || strcmp(project, forgetting->project) != 0)
		return FALSE;
	for (guint i = 0; agent && i < forgetting->agents->len; i++)
		if (strcmp(agent, forgetting->agents->pdata[i]) == 0)
			return TRUE;
	return !agent && forgetting->is_all;
}

static void end_sessions(Forgetting *forgetting)
{
	VialSessionFilter filter = { .user = forgetting->user, .state = -1 };

	for (guint i = 0; i < forgetting->agents->len; i++) {
		VialAgent *agent = vial_agents_find(forgetting->app->agents, forgetting->project, forgetting->agents->pdata[i]);

		if (!agent)
			continue;
		forgetting->pending++;
		forgetting->forgotten.sessions += vial_sessions_end(agent, &filter, WHY, on_sessions_ended, forgetting);
	}
}

static void end_sandboxes(Forgetting *forgetting)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(forgetting->app->sandboxes);

	for (guint i = 0; i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];

		if (sandbox->session || !is_of(forgetting, sandbox->project, sandbox->agent, sandbox->user))
			continue;
		forgetting->has_found = TRUE;
		forgetting->pending++;
		if (g_hash_table_add(forgetting->counted, g_strdup(sandbox->id))) {
			forgetting->forgotten.sandboxes++;
			vial_sandbox_record(sandbox, "sandbox.delete", WHY);
		}
		vial_sandbox_delete(sandbox, on_sandbox_gone, forgetting);
	}
}

static void delete_snapshots(Forgetting *forgetting)
{
	g_autoptr(GPtrArray) list = vial_snapshots_of(forgetting->app, forgetting->project);

	for (guint i = 0; i < list->len; i++) {
		VialSnapshot *snapshot = list->pdata[i];
		const char *agent = json_string_value(json_object_get(snapshot->facts, "agent"));
		const char *user = json_string_value(json_object_get(snapshot->facts, "user"));

		if (!is_of(forgetting, snapshot->project, agent, user))
			continue;
		forgetting->has_found = TRUE;
		forgetting->pending++;
		if (g_hash_table_add(forgetting->counted, g_strdup(snapshot->id)))
			forgetting->forgotten.snapshots++;
		vial_snapshot_delete(forgetting->app, snapshot, on_sessions_ended, forgetting);
	}
}

static gboolean next_round(gpointer data)
{
	Forgetting *forgetting = data;

	forgetting->pending = 1;
	forgetting->has_found = forgetting->rounds++ == 0 || vial_snapshots_being_taken(forgetting->app, forgetting->project) > 0;
	if (forgetting->rounds == 1)
		end_sessions(forgetting);
	end_sandboxes(forgetting);
	delete_snapshots(forgetting);
	step(forgetting);
	return G_SOURCE_REMOVE;
}

void vial_user_forget(VialApp *app, const char *project, const GPtrArray *agents, gboolean is_all, const char *user, VialForgetDone done,
                      gpointer data)
{
	Forgetting *forgetting = g_new0(Forgetting, 1);

	*forgetting = (Forgetting){ .app = app,
		                    .project = g_strdup(project),
		                    .user = g_strdup(user),
		                    .is_all = is_all,
		                    .agents = g_ptr_array_new_with_free_func(g_free),
		                    .counted = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
		                    .done = done,
		                    .data = data };
	for (guint i = 0; i < agents->len; i++)
		g_ptr_array_add(forgetting->agents, g_strdup(((const VialAgent *)agents->pdata[i])->name));
	next_round(forgetting);
}
