/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold the channel -> FREEZE -> (frozen) -> checkpoint -> HELLO of the same generation -> (confirmed) -> release.
 * A guest that does not come back from a HELLO is lost: it is ended rather than left half awake.
 */
#include "service/freeze.h"

#include <errno.h>
#include <glib/gstdio.h>

#include "service/boot.h"
#include "service/sandbox_private.h"
#include "service/writebehind.h"
#include "util/fault.h"
#include "util/log.h"
#include "util/time.h"

#define FREEZE_TIMEOUT_MS 20000

typedef struct {
	VialSandbox *sandbox;
	char *image;
	VialFreezeAct act; /* in place of a checkpoint */
	gboolean stays_frozen;
	gboolean is_frozen;
	VialWriteBehind *behind;
	guint timer;
	GError *error; /* reported after the thaw */
	VialFreezeDone done;
	gpointer data;
} Freeze;

static void finish(Freeze *freeze)
{
	g_clear_handle_id(&freeze->timer, g_source_remove);
	freeze->sandbox->freeze = NULL;
	freeze->done(freeze->error, freeze->data);
	g_clear_error(&freeze->error);
	g_free(freeze->image);
	g_free(freeze);
}

static void on_thawed(VialInstance *instance, const GError *error, gpointer data)
{
	Freeze *freeze = data;
	VialSandbox *sandbox = freeze->sandbox;

	if (error) {
		vial_log_error("sandbox", "did not come back after it was frozen", "sandbox_id", sandbox->id, "error", error->message);
		if (!freeze->error)
			freeze->error = g_error_copy(error);
		if (sandbox->instance) {
			g_autofree char *reason = g_strconcat("not_resumed: ", error->message, NULL);

			vial_instance_condemn(sandbox->instance, reason);
		}
		vial_sandbox_guest_ended(sandbox, error->message);
		return finish(freeze);
	}
	vial_sandbox_listen(sandbox);
	vial_channel_hold(vial_sandbox_channel(sandbox), FALSE);
	finish(freeze);
}

static void thaw(Freeze *freeze)
{
	VialSandbox *sandbox = freeze->sandbox;
	VialBootSpec spec;

	if (!sandbox->instance) /* it ended meanwhile, and that has been dealt with */
		return finish(freeze);
	spec = vial_sandbox_boot_spec(sandbox);
	vial_boot_hello(sandbox->app, sandbox->instance, &spec, on_thawed, freeze);
}

static void on_checkpointed(json_t *result, const GError *error, gpointer data)
{
	Freeze *freeze = data;

	g_clear_pointer(&freeze->behind, vial_write_behind_stop);
	if (!error && vial_fault("freeze.checkpointed"))
		freeze->error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_INTERNAL, "injected failure after the checkpoint");
	if (error)
		freeze->error = g_error_copy(error);
	if (freeze->stays_frozen && !freeze->error)
		return finish(freeze);
	thaw(freeze);
}

void vial_freeze_on_frozen(VialSandbox *sandbox)
{
	Freeze *freeze = sandbox->freeze;

	if (!freeze || freeze->is_frozen)
		return;
	freeze->is_frozen = TRUE;
	g_clear_handle_id(&freeze->timer, g_source_remove);
	if (freeze->act)
		return freeze->act(sandbox->instance, on_checkpointed, freeze, freeze->data);
	if (vial_fault("freeze.frozen") || g_mkdir_with_parents(freeze->image, 0700) < 0) {
		freeze->error = g_error_new(VIAL_ERROR, errno == ENOSPC ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL,
		                            "the snapshot's folder cannot be made: %s", g_strerror(errno));
		return thaw(freeze);
	}
	if (freeze->stays_frozen) /* somebody waits until it is durable */
		freeze->behind = vial_write_behind_start(freeze->image);
	vial_instance_checkpoint(sandbox->instance, freeze->image, TRUE, on_checkpointed, freeze);
}

/* Once frozen the checkpoint's own failure tells; before that only the timer or this would. */
void vial_freeze_on_ended(VialSandbox *sandbox)
{
	Freeze *freeze = sandbox->freeze;

	if (!freeze || freeze->is_frozen)
		return;
	freeze->error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the sandbox ended while it was being frozen");
	finish(freeze);
}

static gboolean on_timeout(gpointer data)
{
	Freeze *freeze = data;

	freeze->timer = 0;
	freeze->is_frozen = TRUE; /* a late answer is no longer waited for */
	freeze->error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_TIMEOUT, "the sandbox's agent did not freeze in time");
	thaw(freeze);
	return G_SOURCE_REMOVE;
}

static Freeze *freeze_new(VialSandbox *sandbox, VialFreezeDone done, gpointer data)
{
	Freeze *freeze = g_new0(Freeze, 1);

	g_assert(!sandbox->freeze && vial_transition_current(sandbox));
	freeze->sandbox = sandbox;
	freeze->done = done;
	freeze->data = data;
	sandbox->freeze = freeze;
	return freeze;
}

static void send_freeze(Freeze *freeze)
{
	VialSandbox *sandbox = freeze->sandbox;

	freeze->timer = vial_time_add_deadline(FREEZE_TIMEOUT_MS, on_timeout, freeze);
	vial_channel_hold(vial_sandbox_channel(sandbox), TRUE);
	vial_channel_send_freeze(vial_sandbox_channel(sandbox));
}

void vial_freeze_run(VialSandbox *sandbox, const char *image, VialFreezeDone done, gpointer data)
{
	Freeze *freeze = freeze_new(sandbox, done, data);

	freeze->image = g_strdup(image);
	freeze->stays_frozen = TRUE;
	send_freeze(freeze);
}

void vial_freeze_thaw(VialSandbox *sandbox, VialFreezeDone done, gpointer data)
{
	Freeze *freeze = freeze_new(sandbox, done, data);

	freeze->is_frozen = TRUE;
	thaw(freeze);
}

/* Freezes that are transitions of their own */

typedef struct {
	VialTransition base;
	char *image;
	VialFreezeAct act;
	VialFreezeDone done;
	gpointer data;
} Checkpoint;

static void on_checkpoint_done(const GError *error, gpointer data)
{
	vial_transition_end(data, error);
}

static void on_act(VialInstance *instance, VialCallDone acted, gpointer acted_data, gpointer data)
{
	Checkpoint *checkpoint = data;

	checkpoint->act(instance, acted, acted_data, checkpoint->data);
}

static void checkpoint_begin(VialTransition *transition)
{
	Checkpoint *checkpoint = (Checkpoint *)transition;
	Freeze *freeze = freeze_new(transition->sandbox, on_checkpoint_done, checkpoint);

	freeze->image = g_strdup(checkpoint->image);
	freeze->act = checkpoint->act ? on_act : NULL;
	send_freeze(freeze);
}

static void thaw_begin(VialTransition *transition)
{
	vial_freeze_thaw(transition->sandbox, on_checkpoint_done, transition);
}

static void checkpoint_settle(VialTransition *transition, const GError *error)
{
	g_autofree Checkpoint *checkpoint = (Checkpoint *)transition;

	checkpoint->done(error, checkpoint->data);
	g_free(checkpoint->image);
}

/* Whoever uses the guest meanwhile only finds it slow: its frames wait in the channel. */
static const VialTransitionOps checkpoint_ops = {
	.participle = "frozen",
	.from = VIAL_FROM(RUNNING),
	.begin = checkpoint_begin,
	.settle = checkpoint_settle,
};

static const VialTransitionOps thaw_ops = {
	.participle = "thawed",
	.from = VIAL_FROM(RUNNING),
	.suspends_use = TRUE,
	.begin = thaw_begin,
	.settle = checkpoint_settle,
};

static void push(VialSandbox *sandbox, const VialTransitionOps *ops, const char *image, VialFreezeAct act, VialFreezeDone done, gpointer data)
{
	Checkpoint *checkpoint = g_new0(Checkpoint, 1);

	checkpoint->image = g_strdup(image);
	checkpoint->act = act;
	checkpoint->done = done;
	checkpoint->data = data;
	vial_transition_push(&checkpoint->base, ops, sandbox, VIAL_QUEUE_LAST);
}

void vial_freeze(VialSandbox *sandbox, const char *image, VialFreezeDone done, gpointer data)
{
	push(sandbox, &checkpoint_ops, image, NULL, done, data);
}

void vial_freeze_for(VialSandbox *sandbox, VialFreezeAct act, VialFreezeDone done, gpointer data)
{
	push(sandbox, &checkpoint_ops, NULL, act, done, data);
}

void vial_thaw(VialSandbox *sandbox, VialFreezeDone done, gpointer data)
{
	push(sandbox, &thaw_ops, NULL, NULL, done, data);
}
