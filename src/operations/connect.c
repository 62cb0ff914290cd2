/* SPDX-License-Identifier: Apache-2.0 */
/* For sandboxes.h: a sandbox that is put to rest, and one that somebody comes back to. */
#include "operations/entry.h"
#include "operations/limits.h"
#include "operations/sandboxes.h"
#include "operations/validate.h"

/* Resting */

typedef struct {
	VialEntry *entry;
	VialOperationDone done;
	gpointer data;
} Rest;

static void on_rested(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autofree Rest *rest = data;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(rest->entry, error, &unrecorded);
	rest->done(error, rest->data);
}

gboolean vial_op_rest(const VialCaller *caller, const char *sandbox_id, VialOperationDone done, gpointer data, GError **error)
{
	VialSandbox *sandbox;
	VialEntry *entry;
	Rest *rest;

	if (!vial_operation_admit(caller, VIAL_VERB_HIBERNATE, sandbox_id, 0, &sandbox, error))
		return FALSE;
	if (vial_sandbox_is_resting(sandbox))
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox rests already");
	entry = vial_entry_begin(caller, VIAL_VERB_HIBERNATE, sandbox, json_pack("{s:b}", "rests", TRUE), error);
	if (!entry)
		return FALSE;
	rest = g_new0(Rest, 1);
	*rest = (Rest){ entry, done, data };
	vial_sandbox_rest(sandbox, caller->principal, on_rested, rest);
	return TRUE;
}

/* Coming back */

typedef struct {
	VialSandbox *sandbox;
	VialEntry *entry;
	gboolean was_asleep, is_held;
	VialConnectDone done;
	gpointer data;
} Connection;

static void on_stored(const GError *error, gpointer data)
{
	g_autofree Connection *connection = data;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(connection->entry, error, &unrecorded);
	connection->done(error ? NULL : connection->sandbox, connection->was_asleep, error, connection->data);
	if (connection->is_held)
		vial_sandbox_release(connection->sandbox);
	vial_sandbox_unref(connection->sandbox);
}

static void on_resumed(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Connection *connection = data;

	if (error)
		on_stored(error, data);
	else
		vial_sandbox_store_then(connection->sandbox, on_stored, data);
}

static void on_awake(VialSandbox *sandbox, const GError *error, gpointer data)
{
	((Connection *)data)->is_held = !error;
	on_resumed(sandbox, error, data);
}

static gboolean is_asleep(const VialSandbox *sandbox)
{
	VialState state = vial_sandbox_state(sandbox);

	return state == VIAL_STATE_PAUSED || state == VIAL_STATE_HIBERNATING || state == VIAL_STATE_HIBERNATED;
}

static json_t *connect_record(const VialLifecycle *lifecycle)
{
	json_t *body = json_object();

	if (lifecycle->ttl_seconds >= 0)
		json_object_set_new(body, "ttl_seconds", json_integer(lifecycle->ttl_seconds));
	if (lifecycle->rests_when_over >= 0)
		json_object_set_new(body, "rests_when_over", json_boolean(lifecycle->rests_when_over));
	return body;
}

/* Who may wake it but not say how long it lives leaves that as it is: clients that connect always say something. */
static void leave_life(const VialCaller *caller, VialLifecycle *lifecycle)
{
	if (caller->principal->role >= vial_verb_rules(VIAL_VERB_LIFECYCLE_CHANGE)->role)
		return;
	lifecycle->ttl_seconds = -1;
	lifecycle->rests_when_over = -1;
}

gboolean vial_op_connect(const VialCaller *caller, const char *sandbox_id, const VialConnectRequest *request, VialConnectDone done, gpointer data,
                         GError **error)
{
	VialLifecycle lifecycle = {
		.ttl_seconds = request->ttl_seconds,
		.idle_seconds = -1,
		.on_idle = -1,
		.persistent = -1,
		.rests_when_over = request->rests_when_over,
	};
	Connection *connection;
	VialSandbox *sandbox;
	VialEntry *entry;

	if (!vial_operation_admit(caller, VIAL_VERB_WAKE, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_int("ttl_seconds", request->ttl_seconds, 0, VIAL_LIFETIME_MAX_SECONDS, error))
		return FALSE;
	if (request->must_sleep && !is_asleep(sandbox))
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox is %s already", vial_state_name(vial_sandbox_state(sandbox)));
	lifecycle.only_longer = !is_asleep(sandbox);
	leave_life(caller, &lifecycle);
	if ((lifecycle.ttl_seconds >= 0 && !vial_sandbox_may_live(sandbox, caller->principal, lifecycle.ttl_seconds, error)) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_WAKE, sandbox, connect_record(&lifecycle), error)))
		return FALSE;
	connection = g_new0(Connection, 1);
	*connection = (Connection){ vial_sandbox_ref(sandbox), entry, is_asleep(sandbox), FALSE, done, data };
	vial_sandbox_set_lifecycle(sandbox, caller->principal, &lifecycle, NULL);
	if (vial_sandbox_state(sandbox) == VIAL_STATE_PAUSED)
		vial_sandbox_resume(sandbox, on_resumed, connection);
	else
		vial_sandbox_wake(sandbox, on_awake, connection);
	return TRUE;
}
