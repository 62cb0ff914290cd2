/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In rounds, as a project ends: a fork or a snapshot that was under way is found by the next one. Sessions of the user are ended in the first round
 * only: whoever calls for him again meanwhile begins anew. With what is his goes what was made of it and has his memory, whosever it is: snapshots,
 * templates that are such snapshots, and sandboxes that began with them (memory_of.h).
 */
#include "service/forget.h"

#include <string.h>

#include "audit/audit.h"
#include "service/custom_templates.h"
#include "service/memory_of.h"
#include "service/sandbox_private.h"
#include "service/sessions.h"
#include "util/fault.h"
#include "util/log.h"

#define ROUND_MS 100
/* As patient as ending.c: sealing the snapshot of a large sandbox takes its time. */
#define MAX_ROUNDS 3000
#define WHY "everything of its user was forgotten"

typedef struct {
	VialApp *app;
	char *project, *user;
	GPtrArray *agents; /* names */
	gboolean is_all;
	guint pending, rounds;
	gboolean has_found; /* something, in this round */
	gboolean is_late;   /* the rounds are over, and not everything is gone */
	GHashTable *counted;
	VialForgotten forgotten;
	GError *error; /* of this round */
	GError *sessions_error;
	VialForgetDone done;
	gpointer data;
} Forgetting;

static gboolean next_round(gpointer data);

/* Why it is not to be told that everything is gone; NULL: it is. The caller's. */
static GError *what_failed(const Forgetting *forgetting)
{
	const GError *error = forgetting->error ? forgetting->error : forgetting->sessions_error;

	if (forgetting->is_late)
		return g_error_new(VIAL_ERROR, VIAL_ERROR_TIMEOUT, "not everything of the user is gone yet, ask again: %s",
		                   error ? error->message : "something that holds his memory is still being made");
	return error ? g_error_copy(error) : NULL;
}

static void over(Forgetting *forgetting)
{
	g_autoptr(GError) error = what_failed(forgetting);

	forgetting->done(&forgetting->forgotten, error, forgetting->data);
	g_clear_error(&forgetting->error);
	g_clear_error(&forgetting->sessions_error);
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
	forgetting->is_late = forgetting->has_found && forgetting->rounds >= vial_fault_measure("forget.rounds", MAX_ROUNDS);
	if (!forgetting->has_found || forgetting->is_late)
		over(forgetting);
	else
		g_timeout_add(forgetting->rounds > 1 ? ROUND_MS : 0, next_round, forgetting);
}

/* A failure is told only if it is the last word: the next round may get it. */
static void settle(Forgetting *forgetting, const GError *error)
{
	if (error && !forgetting->error)
		forgetting->error = g_error_copy(error);
	step(forgetting);
}

static void on_gone(const GError *error, gpointer data)
{
	settle(data, error);
}

/* There is no second round for them. */
static void on_sessions_ended(const GError *error, gpointer data)
{
	Forgetting *forgetting = data;

	if (error && !forgetting->sessions_error)
		forgetting->sessions_error = g_error_copy(error);
	step(forgetting);
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
	return forgetting->is_all; /* of none, or of an agent that is gone: a snapshot stays when its agent is deleted */
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

static gboolean has_memory(const Forgetting *forgetting, const char *project, const char *agent, char **users)
{
	return users && g_strv_contains((const char *const *)users, forgetting->user) && is_of(forgetting, project, agent, forgetting->user);
}

/* Not his own sessions' as such: they are ended once. */
static gboolean is_to_end(const Forgetting *forgetting, const VialSandbox *sandbox)
{
	gboolean is_his = is_of(forgetting, sandbox->project, sandbox->agent, sandbox->user);

	if (sandbox->session && is_his && forgetting->rounds == 1)
		return FALSE;
	return (is_his && !sandbox->session) || has_memory(forgetting, sandbox->project, sandbox->agent, sandbox->memory_of);
}

static void end_sandboxes(Forgetting *forgetting)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(forgetting->app->sandboxes);

	for (guint i = 0; i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];

		if (!is_to_end(forgetting, sandbox))
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

/* It may be just being taken: what it says of itself then is what its sandbox does, or nothing, and who knows whose it is. */
static gboolean is_snapshot_to_end(const VialSnapshot *snapshot, gconstpointer data)
{
	const Forgetting *forgetting = data;
	g_auto(GStrv) users = NULL;
	const VialSandbox *sandbox;

	if (strcmp(snapshot->project, forgetting->project) != 0)
		return FALSE;
	if (snapshot->facts) {
		users = vial_snapshot_memory_of(snapshot);
		return has_memory(forgetting, snapshot->project, json_string_value(json_object_get(snapshot->facts, "agent")), users);
	}
	sandbox = g_hash_table_lookup(forgetting->app->sandboxes->by_id, snapshot->sandbox_id);
	return !sandbox || is_of(forgetting, sandbox->project, sandbox->agent, sandbox->user) ||
	       has_memory(forgetting, sandbox->project, sandbox->agent, sandbox->memory_of);
}

static void record_template(const Forgetting *forgetting, const char *name)
{
	json_t *header = json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:s}", "action", "template.delete", "outcome", "done", "project",
	                           forgetting->project, "principal", "kind", "system", "id", "system", "name", "viald", "template", name);
	g_autoptr(GError) error = NULL;

	if (!vial_audit_add(forgetting->app->audit, header, json_pack("{s:s}", "reason", WHY), TRUE, &error))
		vial_log_error("audit", "the end of a template could not be recorded", "template", name, "error", error->message);
}

/* By the name that is its own alone; its snapshot goes with it, when nobody is reading that. */
static void delete_template(Forgetting *forgetting, const VialCustomTemplate *custom)
{
	g_autofree char *name = g_strdup_printf("%s:%s", custom->name, (const char *)custom->tags->pdata[0]);
	g_autoptr(GError) error = NULL;

	record_template(forgetting, name);
	if (!vial_custom_templates_delete(forgetting->app, forgetting->project, name, on_gone, forgetting, &error))
		settle(forgetting, error);
}

static void delete_snapshots(Forgetting *forgetting)
{
	g_autoptr(GPtrArray) list = vial_snapshots_of(forgetting->app, forgetting->project);

	for (guint i = 0; i < list->len; i++) {
		VialSnapshot *snapshot = list->pdata[i];
		const VialCustomTemplate *custom;

		if (!is_snapshot_to_end(snapshot, forgetting))
			continue;
		forgetting->has_found = TRUE;
		forgetting->pending++;
		if (g_hash_table_add(forgetting->counted, g_strdup(snapshot->id)))
			forgetting->forgotten.snapshots++;
		if ((custom = vial_custom_templates_with_snapshot(forgetting->app, snapshot->id)))
			delete_template(forgetting, custom);
		else
			vial_snapshot_delete(forgetting->app, snapshot, on_gone, forgetting);
	}
}

static gboolean next_round(gpointer data)
{
	Forgetting *forgetting = data;

	forgetting->pending = 1;
	g_clear_error(&forgetting->error);
	forgetting->has_found = forgetting->rounds++ == 0 || vial_snapshots_any(forgetting->app, is_snapshot_to_end, forgetting);
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
