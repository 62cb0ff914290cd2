/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a sandbox: out of sight at once, told as done when process, cgroup, folder and record are gone. */
#include "service/boot.h"
#include "service/sandbox_private.h"
#include "util/tree.h"

typedef struct {
	VialSandboxDone done;
	gpointer data;
} Waiter;

static void tell_waiters(VialSandbox *sandbox)
{
	g_autoptr(GPtrArray) waiters = g_steal_pointer(&sandbox->delete_waiters);

	sandbox->delete_waiters = g_ptr_array_new_with_free_func(g_free);
	for (guint i = 0; i < waiters->len; i++) {
		Waiter *waiter = waiters->pdata[i];

		waiter->done(sandbox, NULL, waiter->data);
	}
}

static void on_forgotten(const GError *error, gpointer data)
{
	g_autoptr(VialSandbox) sandbox = data;

	tell_waiters(sandbox);
}

/* Told only when the record is gone for good: a viald killed right after would otherwise find it and call it failed. */
static void on_swept(const char *reason, gpointer data)
{
	VialSandbox *sandbox = data;

	vial_store_delete_sandbox(sandbox->app->store, sandbox->id, on_forgotten, sandbox);
	g_hash_table_remove(sandbox->app->sandboxes->by_id, sandbox->id);
}

void vial_sandbox_delete(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	gboolean was_deleted = sandbox->state == VIAL_STATE_DELETED;
	g_autofree char *image = vial_hibernation_dir(sandbox->app, sandbox->id);
	g_autofree char *temporary = g_strdup_printf("%s.tmp", image);

	if (done) {
		Waiter *waiter = g_new0(Waiter, 1);

		*waiter = (Waiter){ done, data };
		g_ptr_array_add(sandbox->delete_waiters, waiter);
	}
	sandbox->delete_wanted = TRUE;
	/* In the middle of a transition it is deleted by whoever ends that transition. */
	if (was_deleted || sandbox->transition || sandbox->freeze)
		return;
	vial_sandbox_set_state(sandbox, VIAL_STATE_DELETED, NULL);
	if (sandbox->instance)
		vial_instance_stop(sandbox->instance);
	g_clear_pointer(&sandbox->instance, vial_instance_free);
	vial_tree_remove_later(image);
	vial_tree_remove_later(temporary);
	vial_sweep(sandbox->app, sandbox->host_id, on_swept, vial_sandbox_ref(sandbox));
}
