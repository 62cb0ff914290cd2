/* SPDX-License-Identifier: Apache-2.0 */
/* Using a sandbox: holders keep it from idling and from being hibernated. Whoever comes while it cannot be used waits for his turn, and the first
 * who finds it hibernated wakes it for all. */
#include "service/capacity.h"
#include "service/quota.h"
#include "service/sandbox_private.h"
#include "util/time.h"

typedef struct {
	VialTransition base;
	gboolean is_wake; /* asked for by name */
	VialSandboxDone done;
	gpointer data;
} Acquisition;

static const VialTransitionOps acquisition_ops;

static void hold(VialSandbox *sandbox)
{
	vial_sandbox_ref(sandbox);
	sandbox->active++;
}

static void on_woken(const GError *error, gpointer data)
{
	Acquisition *acquisition = data;

	/* The others would only try the same again, one after the other. */
	if (error)
		vial_transition_refuse_waiting(acquisition->base.sandbox, &acquisition_ops, error);
	vial_transition_end(&acquisition->base, error);
}

static gboolean may_wake(const VialSandbox *sandbox, gboolean is_wake, GError **error)
{
	if (is_wake || !sandbox->is_resting || sandbox->wakes_by_use)
		return TRUE;
	return vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox was put to rest, and goes on when it is woken (…/wake, or connecting to it)");
}

static void acquisition_begin(VialTransition *transition)
{
	VialSandbox *sandbox = transition->sandbox;
	gboolean is_wake = ((Acquisition *)transition)->is_wake;
	g_autoptr(GError) error = NULL;

	if (sandbox->state != VIAL_STATE_HIBERNATED)
		vial_transition_end(transition, NULL);
	else if (may_wake(sandbox, is_wake, &error) && vial_capacity_admit(sandbox, 1, &error) && vial_quota_admit_wake(sandbox, &error))
		vial_wake(sandbox, on_woken, transition);
	else
		vial_transition_end(transition, error);
}

static void acquisition_settle(VialTransition *transition, const GError *error)
{
	g_autofree Acquisition *acquisition = (Acquisition *)transition;

	if (!error)
		hold(transition->sandbox);
	acquisition->done(error ? NULL : transition->sandbox, error, acquisition->data);
}

static const VialTransitionOps acquisition_ops = {
	.participle = "used",
	.from = VIAL_FROM(RUNNING) | VIAL_FROM(HIBERNATED),
	.suspends_use = TRUE,
	.begin = acquisition_begin,
	.settle = acquisition_settle,
};

static void acquire(VialSandbox *sandbox, gboolean is_wake, VialSandboxDone done, gpointer data)
{
	Acquisition *acquisition;

	if (vial_sandbox_is_usable(sandbox)) {
		hold(sandbox);
		done(sandbox, NULL, data);
		return;
	}
	acquisition = g_new0(Acquisition, 1);
	acquisition->is_wake = is_wake;
	acquisition->done = done;
	acquisition->data = data;
	vial_transition_push(&acquisition->base, &acquisition_ops, sandbox, VIAL_QUEUE_LAST);
}

void vial_sandbox_acquire(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	acquire(sandbox, FALSE, done, data);
}

void vial_sandbox_wake(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	acquire(sandbox, TRUE, done, data);
}

void vial_sandbox_release(VialSandbox *sandbox)
{
	sandbox->active--;
	sandbox->last_active_ms = vial_time_monotonic_ms();
	vial_sandbox_unref(sandbox);
}

VialChannel *vial_sandbox_channel(VialSandbox *sandbox)
{
	return sandbox->instance ? vial_instance_channel(sandbox->instance) : NULL;
}
