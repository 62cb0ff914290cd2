/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and forks. */
#include "api/guest.h"
#include "api/handlers.h"
#include "service/fork.h"
#include "service/snapshot.h"
#include "util/json.h"

#define MAX_NAME_BYTES 128

/* A request that holds its sandbox while something slow happens to it. The client may leave; the work goes on. */
typedef struct {
	VialRequest *request;
	VialSandbox *sandbox;
	char *name;
	guint count;
	gboolean is_tree;
} Job;

static Job *job_new(VialRequest *request)
{
	Job *job = g_new0(Job, 1);

	job->request = vial_request_ref(request);
	return job;
}

static void job_free(Job *job)
{
	if (job->sandbox)
		vial_sandbox_release(job->sandbox);
	vial_request_unref(job->request);
	g_free(job->name);
	g_free(job);
}

static void job_fail(Job *job, const GError *error)
{
	vial_request_reply_error(job->request, g_error_copy(error));
	job_free(job);
}

/* Snapshots */

static void on_taken(VialSnapshot *snapshot, const GError *error, gpointer data)
{
	Job *job = data;

	if (error)
		return job_fail(job, error);
	vial_request_reply_json(job->request, 201, vial_snapshot_json(snapshot));
	job_free(job);
}

static void on_snapshot_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Job *job = data;

	if (error)
		return job_fail(job, error);
	job->sandbox = sandbox;
	vial_snapshot_take(sandbox, job->name, on_taken, job);
}

void vial_api_snapshot_take(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);
	g_autoptr(GError) error = NULL;
	const char *name = NULL;
	Job *job;

	if (!sandbox)
		return;
	if (!vial_json_get_string(vial_request_json(request), "name", VIAL_JSON_NONEMPTY, MAX_NAME_BYTES, &name, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	job = job_new(request);
	job->name = g_strdup(name);
	vial_sandbox_acquire(sandbox, on_snapshot_acquired, job);
}

void vial_api_snapshot_list(VialRequest *request)
{
	g_autoptr(GPtrArray) list = vial_snapshots_list(vial_request_app(request), vial_request_identity(request));
	const char *sandbox_id = vial_request_query(request, "sandbox_id");
	json_t *answer = json_array();

	for (guint i = 0; i < list->len; i++) {
		VialSnapshot *snapshot = list->pdata[i];

		if (!sandbox_id || g_strcmp0(snapshot->sandbox_id, sandbox_id) == 0)
			json_array_append_new(answer, vial_snapshot_json(snapshot));
	}
	vial_request_reply_json(request, 200, answer);
}

static VialSnapshot *find(VialRequest *request)
{
	g_autoptr(GError) error = NULL;
	VialSnapshot *snapshot = vial_snapshots_find(vial_request_app(request), vial_request_identity(request),
	                                             vial_request_param(request, "snapshot"), &error);

	if (!snapshot)
		vial_request_reply_error(request, g_steal_pointer(&error));
	return snapshot;
}

void vial_api_snapshot_get(VialRequest *request)
{
	VialSnapshot *snapshot = find(request);

	if (snapshot)
		vial_request_reply_json(request, 200, vial_snapshot_json(snapshot));
}

static void on_snapshot_deleted(const GError *error, gpointer data)
{
	g_autoptr(VialRequest) request = data;

	if (error)
		vial_request_reply_error(request, g_error_copy(error));
	else
		vial_request_reply_empty(request, 204);
}

void vial_api_snapshot_delete(VialRequest *request)
{
	VialSnapshot *snapshot = find(request);

	if (snapshot)
		vial_snapshot_delete(vial_request_app(request), snapshot, on_snapshot_deleted, vial_request_ref(request));
}

/* Forks */

static json_t *child_json(GPtrArray *children, GPtrArray *errors, guint index)
{
	const GError *error = errors->pdata[index];

	return error ? json_pack("{s:s}", "error", error->message) : vial_sandbox_json(children->pdata[index]);
}

static void on_forked(const char *tree_id, GPtrArray *children, GPtrArray *errors, const GError *error, gpointer data)
{
	Job *job = data;
	json_t *list;

	if (error)
		return job_fail(job, error);
	if (!job->is_tree) {
		if (errors->pdata[0])
			return job_fail(job, errors->pdata[0]);
		vial_request_reply_json(job->request, 201, json_pack("{s:o, s:s}", "sandbox", child_json(children, errors, 0), "tree_id", tree_id));
		return job_free(job);
	}
	list = json_array();
	for (guint i = 0; i < children->len; i++)
		json_array_append_new(list, child_json(children, errors, i));
	vial_request_reply_json(job->request, 201, json_pack("{s:s, s:o}", "tree_id", tree_id, "children", list));
	job_free(job);
}

static void on_fork_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Job *job = data;
	json_t *metadata = NULL;

	if (error)
		return job_fail(job, error);
	job->sandbox = sandbox;
	vial_json_get_string_map(vial_request_json(job->request), "metadata", 0, 64, 128, 1024, &metadata, NULL);
	vial_fork(sandbox, job->count, metadata, on_forked, job);
}

static void fork_start(VialRequest *request, gboolean is_tree)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);
	json_t *body = vial_request_json(request), *metadata = NULL;
	g_autoptr(GError) error = NULL;
	gint64 count = 1;
	Job *job;

	if (!sandbox)
		return;
	if ((is_tree && !vial_json_get_int(body, "count", VIAL_JSON_REQUIRED, 1, VIAL_MAX_FORKS, &count, &error)) ||
	    !vial_json_get_string_map(body, "metadata", 0, 64, 128, 1024, &metadata, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	if (vial_sandboxes_count(sandbox->app->sandboxes) + (guint)count > (guint)sandbox->app->config->max_sandboxes)
		return vial_request_reply_fail(request, VIAL_ERROR_QUOTA, "%d more sandboxes would exceed max_sandboxes", (int)count);
	job = job_new(request);
	job->count = (guint)count;
	job->is_tree = is_tree;
	vial_sandbox_acquire(sandbox, on_fork_acquired, job);
}

void vial_api_fork(VialRequest *request)
{
	fork_start(request, FALSE);
}

void vial_api_fork_tree(VialRequest *request)
{
	fork_start(request, TRUE);
}

static void on_promoted(json_t *answer, gpointer data)
{
	g_autoptr(VialRequest) request = data;

	vial_request_reply_json(request, 200, json_incref(answer));
}

void vial_api_promote(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);
	json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;
	const char *tree_id = NULL;
	gboolean cleanup = FALSE;

	if (!sandbox)
		return;
	if (!vial_json_get_string(body, "tree_id", VIAL_JSON_NONEMPTY, 64, &tree_id, &error) ||
	    !vial_json_get_bool(body, "cleanup_siblings", 0, &cleanup, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	vial_promote(sandbox, tree_id, cleanup, on_promoted, vial_request_ref(request));
}
