/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest that is gone: it died, its host process did, or it was caught lying. What is under way fails through its own calls; what is left is swept
 * up by a transition that goes before all that wait, and the record stays as FAILED so that its owner can read why. A sandbox that has a sealed
 * image of itself by then (hibernate.c) has lost nothing and stays HIBERNATED; nor has one that has another guest by then (in_place.c).
 */
#include <string.h>

#include "service/boot.h"
#include "service/freeze.h"
#include "service/sandbox_private.h"
#include "util/log.h"
#include "util/time.h"

typedef struct {
	VialTransition base;
	char *host_id; /* of the guest that is gone: a sandbox that is woken gets another */
} Loss;

static void on_swept(const char *reason, gpointer data)
{
	Loss *loss = data;
	VialSandbox *sandbox = loss->base.sandbox;

	if (sandbox->state != VIAL_STATE_HIBERNATED && strcmp(loss->host_id, sandbox->host_id) == 0) {
		sandbox->last_active_ms = vial_time_monotonic_ms();
		vial_sandbox_set_state(sandbox, VIAL_STATE_FAILED, reason);
		vial_sandbox_record(sandbox, "sandbox.fail", reason);
		vial_sandbox_store(sandbox);
	}
	vial_transition_end(&loss->base, NULL);
}

static void loss_begin(VialTransition *transition)
{
	Loss *loss = (Loss *)transition;

	vial_sweep(transition->sandbox->app, loss->host_id, on_swept, loss);
}

static void loss_settle(VialTransition *transition, const GError *error)
{
	Loss *loss = (Loss *)transition;

	g_free(loss->host_id);
	g_free(loss);
}

/* A deletion that came first has swept up already: then there is nothing to begin. */
static const VialTransitionOps loss_ops = {
	.participle = "buried",
	.from = VIAL_FROM_ANY & ~VIAL_FROM(DELETED),
	.suspends_use = TRUE,
	.begin = loss_begin,
	.settle = loss_settle,
};

void vial_sandbox_guest_ended(VialSandbox *sandbox, const char *detail)
{
	Loss *loss;

	if (!sandbox->instance) /* known already */
		return;
	vial_sandbox_ref(sandbox);
	vial_log_warning("sandbox", "the sandbox is lost", "sandbox_id", sandbox->id, "detail", detail);
	loss = g_new0(Loss, 1);
	loss->host_id = g_strdup(sandbox->host_id);
	vial_sandbox_drop_instance(sandbox);
	vial_freeze_on_ended(sandbox);
	vial_transition_push(&loss->base, &loss_ops, sandbox, VIAL_QUEUE_FIRST);
	vial_sandbox_unref(sandbox);
}

/* The channel reports the violation as the guest's end to whoever listens right now, a HELLO under way or the sandbox; the engine keeps the reason.
 */
void vial_sandbox_lost(VialSandbox *sandbox, const char *why)
{
	vial_channel_violation(vial_sandbox_channel(sandbox), why);
}
