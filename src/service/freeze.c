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
	GError *error; /* told after the thaw */
	VialFreezeDone done;
	gpointer data;
} Freeze;

static void begin_next(VialSandbox *sandbox);

static void finish(Freeze *freeze)
{
	VialSandbox *sandbox = freeze->sandbox;

	g_clear_handle_id(&freeze->timer, g_source_remove);
	sandbox->freeze = NULL;
	freeze->done(freeze->error, freeze->data);
	g_clear_error(&freeze->error);
	g_free(freeze->image);
	g_free(freeze);
	begin_next(sandbox);
	vial_sandbox_transition_done(sandbox);
	vial_sandbox_unref(sandbox);
}

static void on_thawed(VialInstance *instance, const GError *error, gpointer data)
{
	Freeze *freeze = data;
	VialSandbox *sandbox = freeze->sandbox;

	if (error) {
		vial_log_error("sandbox", "did not come back after it was frozen", "sandbox_id", sandbox->id, "error", error->message);
		if (!freeze->error)
			freeze->error = g_error_copy(error);
		vial_sandbox_lost(sandbox, error->message);
		return finish(freeze);
	}
	vial_sandbox_listen(sandbox);
	vial_channel_hold(vial_sandbox_channel(sandbox), FALSE);
	finish(freeze);
}

static void thaw(Freeze *freeze)
{
	VialSandbox *sandbox = freeze->sandbox;
	VialBootSpec spec = {
		.sandbox_id = sandbox->id,
		.host_id = sandbox->host_id,
		.limits = sandbox->limits,
		.generation = sandbox->generation,
		.env = sandbox->env,
	};

	if (!sandbox->instance) /* it ended meanwhile, and that has been dealt with */
		return finish(freeze);
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

	freeze->sandbox = vial_sandbox_ref(sandbox);
	freeze->done = done;
	freeze->data = data;
	return freeze;
}

static void begin(Freeze *freeze)
{
	VialSandbox *sandbox = freeze->sandbox;

	sandbox->freeze = freeze;
	if (!sandbox->instance) {
		freeze->error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the sandbox has ended");
		return finish(freeze);
	}
	freeze->timer = vial_time_add_verdict(FREEZE_TIMEOUT_MS, on_timeout, freeze);
	vial_channel_hold(vial_sandbox_channel(sandbox), TRUE);
	vial_channel_send_freeze(vial_sandbox_channel(sandbox));
}

static void begin_next(VialSandbox *sandbox)
{
	if (sandbox->freezes_waiting->len > 0)
		begin(g_ptr_array_steal_index(sandbox->freezes_waiting, 0));
}

static void begin_or_wait(Freeze *freeze)
{
	if (freeze->sandbox->freeze)
		g_ptr_array_add(freeze->sandbox->freezes_waiting, freeze);
	else
		begin(freeze);
}

void vial_freeze(VialSandbox *sandbox, const char *image, gboolean stays_frozen, VialFreezeDone done, gpointer data)
{
	Freeze *freeze = freeze_new(sandbox, done, data);

	freeze->image = g_strdup(image);
	freeze->stays_frozen = stays_frozen;
	begin_or_wait(freeze);
}

void vial_freeze_for(VialSandbox *sandbox, VialFreezeAct act, VialFreezeDone done, gpointer data)
{
	Freeze *freeze = freeze_new(sandbox, done, data);

	freeze->act = act;
	begin_or_wait(freeze);
}

void vial_thaw(VialSandbox *sandbox, VialFreezeDone done, gpointer data)
{
	Freeze *freeze = freeze_new(sandbox, done, data);

	sandbox->freeze = freeze;
	freeze->is_frozen = TRUE;
	thaw(freeze);
}
