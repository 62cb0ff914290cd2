/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a project, in rounds: whatever belongs to it is deleted, and what comes to be meanwhile (a fork that was under way, a snapshot that was
 * just being taken) in the next round, until a round finds nothing. Its keys are the first to go, so nobody makes anything new.
 */
#include <string.h>

#include "service/agents.h"
#include "service/builds.h"
#include "service/project_private.h"
#include "service/quota.h"
#include "service/sandbox.h"
#include "service/snapshot.h"
#include "util/log.h"

/* Between two rounds when something could not be deleted, or is still being made. */
#define ROUND_MS 200
/* A snapshot that is in use, a fork that takes its time; what still stands after so many rounds is for the next start. */
#define MAX_ROUNDS 1500

typedef struct {
	VialApp *app;
	VialProject *project;
	guint pending;
	guint rounds;
	GHashTable *told; /* ids of sandboxes whose end is on record */
	VialStoreDone done;
	gpointer data;
} Ending;

static gboolean next_round(gpointer data);

static void ending_over(const GError *error, gpointer data)
{
	Ending *ending = data;

	if (ending->done)
		ending->done(error, ending->data);
	g_hash_table_unref(ending->told);
	g_free(ending);
}

static void round_step(Ending *ending)
{
	if (--ending->pending == 0)
		g_timeout_add(ending->rounds > 1 ? ROUND_MS : 0, next_round, ending);
}

static void on_sandbox_gone(VialSandbox *sandbox, const GError *error, gpointer data)
{
	round_step(data);
}

static void on_snapshot_gone(const GError *error, gpointer data)
{
	round_step(data);
}

static guint delete_sandboxes(Ending *ending)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(ending->app->sandboxes);
	guint found = 0;

	for (guint i = 0; i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];

		if (strcmp(vial_sandbox_project(sandbox), ending->project->name) != 0)
			continue;
		found++;
		ending->pending++;
		if (g_hash_table_add(ending->told, g_strdup(vial_sandbox_id(sandbox))))
			vial_sandbox_record(sandbox, "sandbox.delete", "its project is deleted");
		vial_sandbox_delete(sandbox, on_sandbox_gone, ending);
	}
	return found;
}

static guint delete_snapshots(Ending *ending)
{
	g_autoptr(GPtrArray) list = vial_snapshots_of(ending->app, ending->project->name);

	for (guint i = 0; i < list->len; i++) {
		ending->pending++;
		vial_snapshot_delete(ending->app, list->pdata[i], on_snapshot_gone, ending);
	}
	return list->len;
}

static gboolean next_round(gpointer data)
{
	Ending *ending = data;
	VialProject *project = ending->project;
	guint found;

	ending->rounds++;
	ending->pending = 1;
	found = vial_builds_delete_all(ending->app, project->name) + vial_custom_templates_delete_all(ending->app, project->name) +
	        delete_sandboxes(ending) + delete_snapshots(ending) + vial_quota_promised(ending->app, project->name) +
	        vial_snapshots_being_taken(ending->app, project->name) + vial_agents_sessions_in(ending->app, project->name);
	if (found == 0) {
		vial_agents_forget_project(ending->app, project->name);
		project->state = VIAL_PROJECT_DELETED;
		vial_project_store(ending->app, project, ending_over, ending);
		return G_SOURCE_REMOVE;
	}
	if (ending->rounds == MAX_ROUNDS) {
		g_autoptr(GError) error = g_error_new(VIAL_ERROR, VIAL_ERROR_TIMEOUT,
		                                      "not everything of the project could be ended yet; viald tries again when it is started next");

		vial_log_error("project", "could not be deleted wholly", "project", project->name);
		ending_over(error, ending);
		return G_SOURCE_REMOVE;
	}
	round_step(ending);
	return G_SOURCE_REMOVE;
}

static void on_keys_revoked(const GError *error, gpointer data)
{
	if (error)
		return ending_over(error, data);
	next_round(data);
}

static void on_marked(const GError *error, gpointer data)
{
	Ending *ending = data;

	if (!error)
		vial_agents_close_project(ending->app, ending->project->name);
	if (!error)
		return vial_keys_revoke_project(ending->app->keys, ending->project->name, on_keys_revoked, ending);
	ending->project->state = VIAL_PROJECT_ACTIVE;
	ending_over(error, ending);
}

static Ending *ending_new(VialApp *app, VialProject *project, VialStoreDone done, gpointer data)
{
	Ending *ending = g_new0(Ending, 1);

	*ending = (Ending){ .app = app, .project = project, .done = done, .data = data };
	ending->told = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	vial_log_info("project", "is being deleted", "project", project->name);
	return ending;
}

void vial_project_delete(VialApp *app, VialProject *project, VialStoreDone done, gpointer data)
{
	project->state = VIAL_PROJECT_DELETING;
	vial_project_store(app, project, on_marked, ending_new(app, project, done, data));
}

void vial_projects_resume(VialApp *app)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->projects->by_name);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (((VialProject *)value)->state == VIAL_PROJECT_DELETING)
			on_marked(NULL, ending_new(app, value, NULL, NULL)); /* it is: so its keys are gone before anybody is listened to */
}
