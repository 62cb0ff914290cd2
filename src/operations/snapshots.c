/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/snapshots.h"

#include "operations/entry.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/capacity.h"

/* What holds its sandbox while something slow happens to it. */
typedef struct {
	VialEntry *entry;
	VialIdentity *principal;
	VialSandbox *sandbox; /* NULL until acquired */
	char *name;
	guint count;
	VialPromise *promise; /* of room for that many */
	json_t *metadata;
	gint64 ttl_seconds, trial_seconds;
	VialSnapshotDone taken;
	VialForkDone forked;
	gpointer data;
} Job;

static void job_free(Job *job)
{
	if (job->sandbox)
		vial_sandbox_release(job->sandbox);
	vial_promise_free(job->promise);
	vial_identity_unref(job->principal);
	json_decref(job->metadata);
	g_free(job->name);
	g_free(job);
}

/* Snapshots */

static void on_taken(VialSnapshot *snapshot, const GError *error, gpointer data)
{
	Job *job = data;
	g_autoptr(GError) unrecorded = NULL;

	if (snapshot) {
		vial_entry_set(job->entry, "snapshot", json_string(snapshot->id));
		json_object_set_new(vial_entry_body(job->entry), "size_bytes", json_integer(snapshot->size_bytes));
	}
	error = vial_entry_settle(job->entry, error, &unrecorded);
	job->taken(error ? NULL : snapshot, error, job->data);
	job_free(job);
}

static void on_snapshot_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Job *job = data;

	job->sandbox = sandbox;
	if (error)
		on_taken(NULL, error, job);
	else
		vial_snapshot_take(sandbox, job->principal, job->name, on_taken, job);
}

gboolean vial_op_snapshot_take(const VialCaller *caller, const char *sandbox_id, const char *name, VialSnapshotDone done, gpointer data,
                               GError **error)
{
	VialSandbox *sandbox;
	VialEntry *entry;
	Job *job;

	if (!vial_operation_admit(caller, VIAL_VERB_SNAPSHOT_TAKE, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_text("name", name, VIAL_NAME_MAX_BYTES, error) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_SNAPSHOT_TAKE, sandbox, json_pack("{s:s*}", "name", name), error)))
		return FALSE;
	job = g_new0(Job, 1);
	*job = (Job){ .entry = entry, .name = g_strdup(name), .taken = done, .data = data };
	job->principal = vial_identity_ref((VialIdentity *)caller->principal);
	vial_sandbox_acquire(sandbox, on_snapshot_acquired, job);
	return TRUE;
}

/* A narrowed key has nothing to do with what others' sandboxes left, as with those themselves. Snapshots know of no agent yet. */
static gboolean is_within(const VialCaller *caller, const VialSnapshot *snapshot, GError **error)
{
	const VialAllow *allow = caller->principal->allow;

	if (!vial_allow_has_agent(allow, NULL))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN, "this key is only for sandboxes of certain agents (allow.agents)");
	return !allow || vial_ceiling_template(caller->app, caller->principal, snapshot->template_name, error);
}

VialSnapshot *vial_operation_snapshot(const VialCaller *caller, VialVerb verb, const char *id_or_name, GError **error)
{
	VialSnapshot *snapshot = vial_snapshots_find(caller->app, caller->principal, id_or_name, error);
	g_autoptr(GError) refusal = NULL;

	if (!snapshot || is_within(caller, snapshot, &refusal))
		return snapshot;
	vial_entry_refuse(caller, verb, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return NULL;
}

GPtrArray *vial_op_snapshot_list(const VialCaller *caller, const char *sandbox_id, GError **error)
{
	GPtrArray *list;

	if (!vial_operation_admit(caller, VIAL_VERB_SNAPSHOT_READ, NULL, 0, NULL, error))
		return NULL;
	list = vial_snapshots_list(caller->app, caller->principal);
	for (guint i = list->len; i > 0; i--) {
		const VialSnapshot *snapshot = list->pdata[i - 1];

		if ((sandbox_id && g_strcmp0(snapshot->sandbox_id, sandbox_id) != 0) || !is_within(caller, snapshot, NULL))
			g_ptr_array_remove_index(list, i - 1);
	}
	return list;
}

VialSnapshot *vial_op_snapshot_get(const VialCaller *caller, const char *id_or_name, GError **error)
{
	if (!vial_operation_admit(caller, VIAL_VERB_SNAPSHOT_READ, NULL, 0, NULL, error))
		return NULL;
	return vial_operation_snapshot(caller, VIAL_VERB_SNAPSHOT_READ, id_or_name, error);
}

typedef struct {
	VialEntry *entry;
	VialOperationDone done;
	gpointer data;
} Deletion;

static void on_deleted(const GError *error, gpointer data)
{
	g_autofree Deletion *deletion = data;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(deletion->entry, error, &unrecorded);
	deletion->done(error, deletion->data);
}

gboolean vial_op_snapshot_delete(const VialCaller *caller, const char *id_or_name, VialOperationDone done, gpointer data, GError **error)
{
	VialSnapshot *snapshot;
	Deletion *deletion;
	VialEntry *entry;

	if (!vial_operation_admit(caller, VIAL_VERB_SNAPSHOT_DELETE, NULL, 0, NULL, error) ||
	    !(snapshot = vial_operation_snapshot(caller, VIAL_VERB_SNAPSHOT_DELETE, id_or_name, error)) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_SNAPSHOT_DELETE, NULL, json_pack("{s:s*}", "name", snapshot->name), error)))
		return FALSE;
	vial_entry_set(entry, "snapshot", json_string(snapshot->id));
	deletion = g_new0(Deletion, 1);
	*deletion = (Deletion){ entry, done, data };
	vial_snapshot_delete(caller->app, snapshot, on_deleted, deletion);
	return TRUE;
}

/* Forks */

static void on_forked(const char *tree_id, GPtrArray *children, GPtrArray *errors, const GError *error, gpointer data)
{
	Job *job = data;
	g_autoptr(GError) unrecorded = NULL;
	json_t *ids = json_array();

	for (guint i = 0; !error && i < children->len; i++)
		if (children->pdata[i])
			json_array_append_new(ids, json_string(vial_sandbox_id(children->pdata[i])));
	json_object_set_new(vial_entry_body(job->entry), "children", ids);
	error = vial_entry_settle(job->entry, error, &unrecorded);
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
		vial_fork(sandbox, job->count, job->metadata, job->ttl_seconds, job->trial_seconds, job->principal, job->promise, on_forked, job);
}

/* Children are as their parent: may this caller have such, and is there room for so many? */
static VialPromise *promise_room(const VialCaller *caller, VialSandbox *sandbox, guint count, GError **error)
{
	const char *mode = json_string_value(json_object_get(vial_sandbox_network(sandbox), "mode"));
	g_autoptr(GError) refusal = NULL;
	VialPromise *promise = NULL;

	if (vial_capacity_admit(sandbox, count, &refusal) && vial_ceiling_network(caller->app, caller->principal, mode, &refusal) &&
	    vial_ceiling_size(caller->app, caller->principal, vial_sandbox_limits(sandbox), &refusal))
		promise = vial_quota_promise(sandbox, caller->principal, count, &refusal);
	if (promise)
		return promise;
	vial_entry_refuse(caller, VIAL_VERB_FORK, sandbox, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return NULL;
}

gboolean vial_op_fork(const VialCaller *caller, const char *sandbox_id, const VialForkRequest *request, VialForkDone done, gpointer data,
                      GError **error)
{
	VialPromise *promise;
	VialSandbox *sandbox;
	VialEntry *entry;
	Job *job;

	if (!vial_check_required_int("count", request->count, 1, VIAL_MAX_FORKS, error) ||
	    !vial_operation_admit(caller, VIAL_VERB_FORK, sandbox_id, (guint)request->count, &sandbox, error) ||
	    !vial_check_metadata(request->metadata, error) ||
	    !vial_check_int("trial_seconds", request->trial_seconds, 0, VIAL_LIFETIME_MAX_SECONDS, error) ||
	    !vial_check_int("ttl_seconds", request->ttl_seconds, 0, VIAL_LIFETIME_MAX_SECONDS, error) ||
	    (request->ttl_seconds != VIAL_UNSAID && !vial_sandbox_may_live(sandbox, caller->principal, request->ttl_seconds, error)) ||
	    !(promise = promise_room(caller, sandbox, (guint)request->count, error)))
		return FALSE;
	entry = vial_entry_begin(caller, VIAL_VERB_FORK, sandbox, json_pack("{s:I}", "count", (json_int_t)request->count), error);
	if (!entry) {
		vial_promise_free(promise);
		return FALSE;
	}
	job = g_new0(Job, 1);
	*job = (Job){ .entry = entry, .count = (guint)request->count, .promise = promise, .forked = done, .data = data };
	job->principal = vial_identity_ref((VialIdentity *)caller->principal);
	job->ttl_seconds = MAX(request->ttl_seconds, -1);
	job->trial_seconds = MAX(request->trial_seconds, 0); /* VIAL_UNSAID is below */
	job->metadata = request->metadata ? json_incref(request->metadata) : NULL;
	vial_sandbox_acquire(sandbox, on_fork_acquired, job);
	return TRUE;
}

/* Promotion */

typedef struct {
	VialEntry *entry;
	VialPromoteDone done;
	gpointer data;
} Promotion;

static void on_promoted(json_t *answer, gpointer data)
{
	g_autofree Promotion *promotion = data;

	json_object_set(vial_entry_body(promotion->entry), "deleted", json_object_get(answer, "deleted"));
	vial_entry_settle(promotion->entry, NULL, NULL);
	promotion->done(answer, promotion->data);
}

gboolean vial_op_promote(const VialCaller *caller, const char *sandbox_id, const char *tree_id, gboolean cleanup_siblings, VialPromoteDone done,
                         gpointer data, GError **error)
{
	Promotion *promotion;
	VialSandbox *sandbox;
	VialEntry *entry;

	if (!vial_operation_admit(caller, VIAL_VERB_PROMOTE, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_text("tree_id", tree_id, VIAL_TREE_ID_MAX_BYTES, error) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_PROMOTE, sandbox, json_pack("{s:s*}", "tree_id", tree_id), error)))
		return FALSE;
	promotion = g_new0(Promotion, 1);
	*promotion = (Promotion){ entry, done, data };
	vial_promote(sandbox, tree_id, cleanup_siblings, on_promoted, promotion);
	return TRUE;
}
