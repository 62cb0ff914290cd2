/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a sandbox: out of sight as soon as its turn comes, reported as done when process, cgroup, folder and record are gone. */
#include "service/boot.h"
#include "service/sandbox_private.h"
#include "service/slots.h"
#include "service/undo.h"
#include "util/log.h"
#include "util/time.h"
#include "util/tree.h"

/* How long what is under way may go on, then its guest is ended under it. */
#define GRACE_MS 5000

typedef struct {
	VialTransition base;
	guint timer;
	VialSandboxDone done;
	gpointer data;
} Deletion;

static void on_forgotten(const GError *error, gpointer data)
{
	Deletion *deletion = data;

	if (error)
		vial_log_error("sandbox", "the record of a deleted sandbox is still there", "sandbox_id", deletion->base.sandbox->id, "error",
		               error->message);
	vial_transition_end(&deletion->base, error);
}

/* Reported only when the record is gone for good: a viald killed right after would otherwise find it and call it failed. */
static void on_swept(const char *reason, gpointer data)
{
	Deletion *deletion = data;
	VialSandbox *sandbox = deletion->base.sandbox;

	vial_store_delete_sandbox(sandbox->app->store, sandbox->id, on_forgotten, deletion);
	g_hash_table_remove(sandbox->app->sandboxes->by_id, sandbox->id);
}

static gboolean on_grace_over(gpointer data)
{
	Deletion *deletion = data;
	VialSandbox *sandbox = deletion->base.sandbox;

	deletion->timer = 0;
	if (sandbox->instance)
		vial_instance_give_up(sandbox->instance, "it is to be deleted");
	return G_SOURCE_REMOVE;
}

static void deletion_begin(VialTransition *transition)
{
	Deletion *deletion = (Deletion *)transition;
	VialSandbox *sandbox = transition->sandbox;
	g_autofree char *image = vial_hibernation_dir(sandbox->app, sandbox->id);
	g_autofree char *temporary = g_strdup_printf("%s.tmp", image);

	g_clear_handle_id(&deletion->timer, g_source_remove);
	if (sandbox->state == VIAL_STATE_DELETED) /* somebody was faster, or it never came to be */
		return vial_transition_end(transition, NULL);
	vial_sandbox_set_state(sandbox, VIAL_STATE_DELETED, NULL);
	vial_sandbox_drop_instance(sandbox);
	vial_slots_drop_parked(sandbox->app->slots, sandbox->id);
	vial_undo_drop_all(sandbox->app, sandbox->id);
	vial_tree_remove_later(image);
	vial_tree_remove_later(temporary);
	vial_sweep(sandbox->app, sandbox->host_id, on_swept, transition);
}

static void deletion_settle(VialTransition *transition, const GError *error)
{
	g_autofree Deletion *deletion = (Deletion *)transition;

	if (deletion->done)
		deletion->done(error ? NULL : transition->sandbox, error, deletion->data);
}

static const VialTransitionOps deletion_ops = {
	.participle = "deleted",
	.from = VIAL_FROM_ANY,
	.suspends_use = TRUE,
	.begin = deletion_begin,
	.settle = deletion_settle,
};

gboolean vial_sandbox_is_ending(const VialSandbox *sandbox)
{
	return sandbox->state == VIAL_STATE_DELETED || vial_transition_is_pending(sandbox, &deletion_ops);
}

void vial_sandbox_delete(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	Deletion *deletion;

	/* Nobody waits for this one, and one like it is on its way. */
	if (!done && vial_transition_is_pending(sandbox, &deletion_ops))
		return;
	deletion = g_new0(Deletion, 1);
	deletion->done = done;
	deletion->data = data;
	if (vial_sandbox_is_busy(sandbox))
		deletion->timer = vial_time_add_deadline(GRACE_MS, on_grace_over, deletion);
	vial_transition_push(&deletion->base, &deletion_ops, sandbox, VIAL_QUEUE_FIRST);
}
