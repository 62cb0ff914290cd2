/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/snapshots.h"

#include "operations/limits.h"
#include "operations/validate.h"

/* What holds its sandbox while something slow happens to it. */
typedef struct {
	VialApp *app;
	VialSandbox *sandbox; /* NULL until acquired */
	char *name;
	guint count;
	json_t *metadata;
	VialSnapshotDone taken;
	VialForkDone forked;
	gpointer data;
} Job;

static void job_free(Job *job)
{
	if (job->sandbox)
		vial_sandbox_release(job->sandbox);
	job->app->promised_sandboxes -= job->count;
	json_decref(job->metadata);
	g_free(job->name);
	g_free(job);
}

/* Snapshots */

static void on_taken(VialSnapshot *snapshot, const GError *error, gpointer data)
{
	Job *job = data;

	job->taken(snapshot, error, job->data);
	job_free(job);
}

static void on_snapshot_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Job *job = data;

	job->sandbox = sandbox;
	if (error)
		on_taken(NULL, error, job);
	else
		vial_snapshot_take(sandbox, job->name, on_taken, job);
}

gboolean vial_op_snapshot_take(const VialCaller *caller, const char *sandbox_id, const char *name, VialSnapshotDone done, gpointer data,
                               GError **error)
{
	VialSandbox *sandbox;
	Job *job;

	if (!vial_operation_admit(caller, VIAL_VERB_SNAPSHOT_TAKE, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_text("name", name, VIAL_NAME_MAX_BYTES, error))
		return FALSE;
	job = g_new0(Job, 1);
	*job = (Job){ .app = caller->app, .name = g_strdup(name), .taken = done, .data = data };
	vial_sandbox_acquire(sandbox, on_snapshot_acquired, job);
	return TRUE;
}

GPtrArray *vial_op_snapshot_list(const VialCaller *caller, const char *sandbox_id, GError **error)
{
	GPtrArray *list;

	if (!vial_operation_admit(caller, VIAL_VERB_SNAPSHOT_READ, NULL, 0, NULL, error))
		return NULL;
	list = vial_snapshots_list(caller->app, caller->principal);
	for (guint i = list->len; sandbox_id && i > 0; i--)
		if (g_strcmp0(((VialSnapshot *)list->pdata[i - 1])->sandbox_id, sandbox_id) != 0)
			g_ptr_array_remove_index(list, i - 1);
	return list;
}

VialSnapshot *vial_op_snapshot_get(const VialCaller *caller, const char *id_or_name, GError **error)
{
	if (!vial_operation_admit(caller, VIAL_VERB_SNAPSHOT_READ, NULL, 0, NULL, error))
		return NULL;
	return vial_snapshots_find(caller->app, caller->principal, id_or_name, error);
}

gboolean vial_op_snapshot_delete(const VialCaller *caller, const char *id_or_name, VialOperationDone done, gpointer data, GError **error)
{
	VialSnapshot *snapshot;

	if (!vial_operation_admit(caller, VIAL_VERB_SNAPSHOT_DELETE, NULL, 0, NULL, error) ||
	    !(snapshot = vial_snapshots_find(caller->app, caller->principal, id_or_name, error)))
		return FALSE;
	vial_snapshot_delete(caller->app, snapshot, done, data);
	return TRUE;
}

/* Forks */

static void on_forked(const char *tree_id, GPtrArray *children, GPtrArray *errors, const GError *error, gpointer data)
{
	Job *job = data;

	job->forked(tree_id, children, errors, error, job->data);
	job_free(job);
}

static void on_fork_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Job *job = data;

	job->sandbox = sandbox;
	if (error)
		on_forked(NULL, NULL, NULL, error, job);
	else
		vial_fork(sandbox, job->count, job->metadata, on_forked, job);
}

gboolean vial_op_fork(const VialCaller *caller, const char *sandbox_id, const VialForkRequest *request, VialForkDone done, gpointer data,
                      GError **error)
{
	VialSandbox *sandbox;
	Job *job;

	if (!vial_check_required_int("count", request->count, 1, VIAL_MAX_FORKS, error) ||
	    !vial_operation_admit(caller, VIAL_VERB_FORK, sandbox_id, (guint)request->count, &sandbox, error) ||
	    !vial_check_metadata(request->metadata, error))
		return FALSE;
	job = g_new0(Job, 1);
	*job = (Job){ .app = caller->app, .count = (guint)request->count, .forked = done, .data = data };
	job->metadata = request->metadata ? json_incref(request->metadata) : NULL;
	caller->app->promised_sandboxes += job->count;
	vial_sandbox_acquire(sandbox, on_fork_acquired, job);
	return TRUE;
}

gboolean vial_op_promote(const VialCaller *caller, const char *sandbox_id, const char *tree_id, gboolean cleanup_siblings, VialPromoteDone done,
                         gpointer data, GError **error)
{
	VialSandbox *sandbox;

	if (!vial_operation_admit(caller, VIAL_VERB_PROMOTE, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_text("tree_id", tree_id, VIAL_TREE_ID_MAX_BYTES, error))
		return FALSE;
	vial_promote(sandbox, tree_id, cleanup_siblings, done, data);
	return TRUE;
}
