/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a space up is three operations, each with its own record: its network, then its life, then waking it. In this order nothing of it runs under
 * the old policy, and what fails leaves it frozen.
 */
#include "operations/spaces.h"

#include "operations/network.h"
#include "operations/sandboxes.h"

typedef struct {
	VialCaller caller;
	VialSandbox *sandbox;
	VialLifecycleRequest lifecycle;
	VialSandboxDone done;
	gpointer data;
} Resume;

static void settle(Resume *resume, const GError *error)
{
	resume->done(error ? NULL : resume->sandbox, error, resume->data);
	vial_sandbox_unref(resume->sandbox);
	g_free(resume);
}

static void on_awake(const GError *error, gpointer data)
{
	settle(data, error);
}

static void on_life_set(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Resume *resume = data;
	g_autoptr(GError) refusal = NULL;

	if (error)
		settle(resume, error);
	else if (!vial_op_power(&resume->caller, VIAL_VERB_WAKE, vial_sandbox_id(resume->sandbox), on_awake, resume, &refusal))
		settle(resume, refusal);
}

static gboolean set_life(Resume *resume, GError **error)
{
	return vial_op_lifecycle_change(&resume->caller, vial_sandbox_id(resume->sandbox), &resume->lifecycle, on_life_set, resume, error);
}

static void on_network_set(json_t *document, const GError *error, gpointer data)
{
	Resume *resume = data;
	g_autoptr(GError) refusal = NULL;

	if (error)
		settle(resume, error);
	else if (!set_life(resume, &refusal))
		settle(resume, refusal);
}

static VialSandbox *find(const VialCaller *caller, VialVerb verb, const char *id, GError **error)
{
	VialSandbox *sandbox;

	if (!vial_operation_admit(caller, verb, id, 0, &sandbox, error))
		return NULL;
	if (vial_sandbox_state(sandbox) == VIAL_STATE_HIBERNATED)
		return sandbox;
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no space %.64s: the sandbox of that name is %s", id,
	          vial_state_name(vial_sandbox_state(sandbox)));
	return NULL;
}

gboolean vial_op_space_resume(const VialCaller *caller, const char *sandbox_id, const VialSpaceRequest *request, VialSandboxDone done, gpointer data,
                              GError **error)
{
	VialSandbox *sandbox = find(caller, VIAL_VERB_WAKE, sandbox_id, error);
	gboolean is_begun;
	Resume *resume;

	if (!sandbox)
		return FALSE;
	resume = g_new0(Resume, 1);
	*resume = (Resume){ .caller = *caller,
		            .sandbox = vial_sandbox_ref(sandbox),
		            .lifecycle = { .ttl_seconds = request->ttl_seconds,
		                           .idle_seconds = request->idle_seconds,
		                           .on_idle = request->persistent ? "hibernate" : "delete",
		                           .persistent = request->persistent },
		            .done = done,
		            .data = data };
	if (request->network)
		is_begun = vial_op_network_put(caller, sandbox_id, request->network, on_network_set, resume, error);
	else
		is_begun = set_life(resume, error);
	if (is_begun)
		return TRUE;
	vial_sandbox_unref(resume->sandbox);
	g_free(resume);
	return FALSE;
}

gboolean vial_op_space_delete(const VialCaller *caller, const char *sandbox_id, VialOperationDone done, gpointer data, GError **error)
{
	return find(caller, VIAL_VERB_SANDBOX_DELETE, sandbox_id, error) && vial_op_sandbox_delete(caller, sandbox_id, done, data, error);
}
