/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a project (ending.h): whatever belongs to it. Its keys are the first to go, so nobody makes anything new. */
#include <string.h>

#include "service/agents.h"
#include "service/build_files.h"
#include "service/builds.h"
#include "service/ending.h"
#include "service/project_private.h"
#include "service/quota.h"
#include "service/sandbox.h"
#include "service/snapshot.h"

typedef struct {
	VialApp *app;
	VialProject *project;
} Which;

static gboolean owns(gpointer owner, VialSandbox *sandbox)
{
	const Which *which = owner;

	return strcmp(vial_sandbox_project(sandbox), which->project->name) == 0;
}

static void on_snapshot_gone(const GError *error, gpointer data)
{
	vial_ending_step(data);
}

static guint delete_snapshots(VialEnding *ending, const Which *which)
{
	g_autoptr(GPtrArray) list = vial_snapshots_of(which->app, which->project->name);

	for (guint i = 0; i < list->len; i++) {
		vial_ending_await(ending);
		vial_snapshot_delete(which->app, list->pdata[i], on_snapshot_gone, ending);
	}
	return list->len;
}

static guint delete_others(VialEnding *ending, gpointer owner)
{
	const Which *which = owner;
	VialApp *app = which->app;
	const char *name = which->project->name;

	return vial_builds_delete_all(app, name) + vial_build_files_delete_all(app, name) + vial_custom_templates_delete_all(app, name) +
	       delete_snapshots(ending, which) + vial_quota_promised(app, name) + vial_snapshots_being_taken(app, name) +
	       vial_agents_sessions_in(app, name);
}

static void forget(gpointer owner, VialStoreDone done, gpointer data)
{
	const Which *which = owner;

	vial_agents_forget_project(which->app, which->project->name);
	which->project->state = VIAL_PROJECT_DELETED;
	vial_project_store(which->app, which->project, done, data);
}

static const VialEndingKind kind = {
	.what = "project",
	.owns = owns,
	.others = delete_others,
	.last = forget,
	.unref = g_free,
};

static void on_keys_revoked(const GError *error, gpointer data)
{
	if (error)
		return vial_ending_over(error, data);
	vial_ending_start(data);
}

static void on_marked(const GError *error, gpointer data)
{
	const Which *which = vial_ending_owner(data);

	if (error) {
		which->project->state = VIAL_PROJECT_ACTIVE;
		return vial_ending_over(error, data);
	}
	vial_agents_close_project(which->app, which->project->name);
	vial_keys_revoke_project(which->app->keys, which->project->name, on_keys_revoked, data);
}

static VialEnding *ending_new(VialApp *app, VialProject *project, VialStoreDone done, gpointer data)
{
	Which *which = g_new(Which, 1);

	*which = (Which){ app, project };
	return vial_ending_new(app, &kind, project->name, which, done, data);
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
