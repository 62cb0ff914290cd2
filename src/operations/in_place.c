/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/in_place.h"

#include <string.h>

#include "operations/entry.h"
#include "operations/limits.h"
#include "operations/snapshots.h"
#include "operations/validate.h"
#include "service/in_place.h"
#include "service/undo.h"

typedef struct {
	VialEntry *entry;
	VialSandboxDone done;
	gpointer data;
} Job;

static Job *job_new(VialEntry *entry, VialSandboxDone done, gpointer data)
{
	Job *job = g_new0(Job, 1);

	*job = (Job){ entry, done, data };
	return job;
}

static void on_done(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autofree Job *job = data;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(job->entry, error, &unrecorded);
	job->done(error ? NULL : sandbox, error, job->data);
}

static gboolean check_required(const char *field, const char *text, GError **error)
{
	return text ? vial_check_text(field, text, VIAL_NAME_MAX_BYTES, error)
	            : vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" is required", field);
}

gboolean vial_op_rollback(const VialCaller *caller, const char *sandbox_id, const char *name, VialSandboxDone done, gpointer data, GError **error)
{
	VialSnapshot *snapshot;
	VialSandbox *sandbox;
	VialEntry *entry;

	if (!vial_operation_admit(caller, VIAL_VERB_ROLLBACK, sandbox_id, 0, &sandbox, error) || !check_required("snapshot", name, error) ||
	    !(snapshot = vial_operation_snapshot(caller, VIAL_VERB_ROLLBACK, name, error)) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_ROLLBACK, sandbox, json_pack("{s:s*}", "name", snapshot->name), error)))
		return FALSE;
	vial_entry_set(entry, "snapshot", json_string(snapshot->id));
	vial_sandbox_rollback(sandbox, snapshot, on_done, job_new(entry, done, data));
	return TRUE;
}

/* Another of the caller's, with which he may do what he does with this one. */
static VialSandbox *find_winner(const VialCaller *caller, VialSandbox *sandbox, const char *id, GError **error)
{
	VialSandbox *winner = vial_sandboxes_find(caller->app, caller->principal, id, error);
	g_autoptr(GError) refusal = NULL;

	if (!winner)
		return NULL;
	if (winner == sandbox) {
		vial_fail(error, VIAL_ERROR_INVALID, "field \"winner\" must be another sandbox: one cannot be merged with itself");
		return NULL;
	}
	if (vial_operation_may_touch(caller, winner, &refusal))
		return winner;
	vial_entry_refuse(caller, VIAL_VERB_MERGE, winner, id, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return NULL;
}

gboolean vial_op_merge(const VialCaller *caller, const char *sandbox_id, const char *winner_id, VialSandboxDone done, gpointer data, GError **error)
{
	VialSandbox *sandbox, *winner;
	VialEntry *entry;

	if (!vial_operation_admit(caller, VIAL_VERB_MERGE, sandbox_id, 0, &sandbox, error) || !check_required("winner", winner_id, error) ||
	    !(winner = find_winner(caller, sandbox, winner_id, error)) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_MERGE, sandbox, json_pack("{s:s}", "winner", winner_id), error)))
		return FALSE;
	vial_sandbox_merge(sandbox, winner, on_done, job_new(entry, done, data));
	return TRUE;
}

gboolean vial_op_undo(const VialCaller *caller, const char *sandbox_id, VialSandboxDone done, gpointer data, GError **error)
{
	VialSandbox *sandbox;
	VialEntry *entry;

	if (!vial_operation_admit(caller, VIAL_VERB_UNDO, sandbox_id, 0, &sandbox, error) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_UNDO, sandbox, NULL, error)))
		return FALSE;
	vial_sandbox_undo(sandbox, on_done, job_new(entry, done, data));
	return TRUE;
}
