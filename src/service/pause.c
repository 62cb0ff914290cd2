/* SPDX-License-Identifier: Apache-2.0 */
/* Pausing and resuming: memory kept, no processor. */
#include "service/sandbox_private.h"
#include "util/time.h"

typedef struct {
	VialTransition base;
	VialState target;
	VialSandboxDone done;
	gpointer data;
} Pause;

static void on_done(json_t *result, const GError *error, gpointer data)
{
	Pause *pause = data;
	VialSandbox *sandbox = pause->base.sandbox;

	if (!error && sandbox->instance) {
		vial_sandbox_set_state(sandbox, pause->target, NULL);
		vial_sandbox_store(sandbox);
	}
	sandbox->last_active_ms = vial_time_monotonic_ms();
	vial_transition_end(&pause->base, error);
}

static void pause_begin(VialTransition *transition)
{
	Pause *pause = (Pause *)transition;
	VialSandbox *sandbox = transition->sandbox;

	if (sandbox->state == pause->target)
		vial_transition_end(transition, NULL);
	else if (pause->target == VIAL_STATE_PAUSED)
		vial_instance_pause(sandbox->instance, on_done, pause);
	else
		vial_instance_resume(sandbox->instance, on_done, pause);
}

static void pause_settle(VialTransition *transition, const GError *error)
{
	g_autofree Pause *pause = (Pause *)transition;

	pause->done(error ? NULL : transition->sandbox, error, pause->data);
}

static const VialTransitionOps pause_ops = {
	.participle = "paused",
	.from = VIAL_FROM(RUNNING) | VIAL_FROM(PAUSED),
	.suspends_use = TRUE,
	.begin = pause_begin,
	.settle = pause_settle,
};

static const VialTransitionOps resume_ops = {
	.participle = "resumed",
	.from = VIAL_FROM(RUNNING) | VIAL_FROM(PAUSED),
	.suspends_use = TRUE,
	.begin = pause_begin,
	.settle = pause_settle,
};

static void push(VialSandbox *sandbox, const VialTransitionOps *ops, VialState target, VialSandboxDone done, gpointer data)
{
	Pause *pause = g_new0(Pause, 1);

	pause->target = target;
	pause->done = done;
	pause->data = data;
	vial_transition_push(&pause->base, ops, sandbox, VIAL_QUEUE_LAST);
}

void vial_sandbox_pause(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	push(sandbox, &pause_ops, VIAL_STATE_PAUSED, done, data);
}

void vial_sandbox_resume(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	push(sandbox, &resume_ops, VIAL_STATE_RUNNING, done, data);
}
