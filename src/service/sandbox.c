/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox object and its registry; what requests do with one is in create.c, use.c, delete.c and adopt.c. */
#include "service/sandbox_private.h"

#include <string.h>

#include "service/boot.h"
#include "service/freeze.h"
#include "util/log.h"
#include "util/time.h"

VialSandbox *vial_sandbox_ref(VialSandbox *sandbox)
{
	sandbox->refs++;
	return sandbox;
}

void vial_sandbox_unref(VialSandbox *sandbox)
{
	if (!sandbox || --sandbox->refs > 0)
		return;
	vial_instance_free(sandbox->instance);
	json_decref(sandbox->metadata);
	json_decref(sandbox->env);
	json_decref(sandbox->network);
	g_ptr_array_unref(sandbox->delete_waiters);
	g_ptr_array_unref(sandbox->wake_waiters);
	vial_journal_unref(sandbox->journal);
	g_ptr_array_unref(sandbox->freezes_waiting);
	g_free(sandbox->id);
	g_free(sandbox->project);
	g_free(sandbox->key_id);
	g_free(sandbox->template_name);
	g_free(sandbox->template_hash);
	g_free(sandbox->rootfs);
	g_free(sandbox->reason);
	g_free(sandbox->runtime_dir);
	g_free(sandbox->host_id);
	g_free(sandbox->generation);
	g_free(sandbox->slot_name);
	g_free(sandbox->boot_mode);
	g_free(sandbox->from_snapshot);
	g_free(sandbox->parent);
	g_free(sandbox->tree_id);
	g_free(sandbox);
}

VialSandbox *vial_sandbox_new(VialApp *app, const char *id)
{
	VialSandbox *sandbox = g_new0(VialSandbox, 1);

	sandbox->refs = 1;
	sandbox->app = app;
	sandbox->id = g_strdup(id);
	sandbox->host_id = g_strdup(id);
	sandbox->state = VIAL_STATE_CREATING;
	sandbox->created_at_ms = vial_time_now_ms();
	sandbox->last_active_ms = vial_time_monotonic_ms();
	sandbox->delete_waiters = g_ptr_array_new_with_free_func(g_free);
	sandbox->wake_waiters = g_ptr_array_new_with_free_func(g_free);
	sandbox->journal = vial_journal_new();
	sandbox->freezes_waiting = g_ptr_array_new();
	g_hash_table_insert(app->sandboxes->by_id, sandbox->id, sandbox);
	return sandbox;
}

void vial_sandbox_set_state(VialSandbox *sandbox, VialState state, const char *reason)
{
	g_autofree char *old = NULL;

	if (!vial_state_may_follow(sandbox->state, state)) {
		vial_log_error("sandbox", "a transition that the table forbids was refused", "sandbox_id", sandbox->id, "from",
		               vial_state_name(sandbox->state), "to", vial_state_name(state));
		return;
	}
	vial_log_info("sandbox", "state changed", "sandbox_id", sandbox->id, "from", vial_state_name(sandbox->state), "to",
	              vial_state_name(state));
	sandbox->state = state;
	/* `reason` may be the sandbox's own. */
	old = sandbox->reason;
	sandbox->reason = g_strdup(reason);
	reason = sandbox->reason;
	vial_journal_add_event(sandbox->journal, "the sandbox is %s%s%s", vial_state_name(state), reason ? ": " : "", reason ? reason : "");
	if (state == VIAL_STATE_DELETED || state == VIAL_STATE_FAILED)
		vial_journal_close(sandbox->journal);
}

void vial_sandbox_set_ttl(VialSandbox *sandbox, gint64 ttl_seconds)
{
	sandbox->ttl_seconds = ttl_seconds;
	sandbox->expires_at_ms = ttl_seconds > 0 ? vial_time_now_ms() + ttl_seconds * 1000 : 0;
}

/* The sandbox ended by itself: find out why, remove its remains, and keep the record so that its owner can read it. */
static void on_swept(const char *reason, gpointer data)
{
	g_autoptr(VialSandbox) sandbox = data;

	if (sandbox->state == VIAL_STATE_DELETED)
		return;
	vial_sandbox_set_state(sandbox, VIAL_STATE_FAILED, reason);
	vial_sandbox_store(sandbox);
	vial_sandbox_transition_done(sandbox);
}

void vial_sandbox_lost(VialSandbox *sandbox, const char *why)
{
	vial_log_warning("sandbox", "the sandbox is lost", "sandbox_id", sandbox->id, "detail", why);
	if (!sandbox->instance)
		return;
	vial_instance_stop(sandbox->instance);
	g_clear_pointer(&sandbox->instance, vial_instance_free);
	vial_sweep(sandbox->app, sandbox->host_id, on_swept, vial_sandbox_ref(sandbox));
}

static void on_ended(VialInstance *instance, const char *reason, gpointer data)
{
	VialSandbox *sandbox = vial_sandbox_ref(data);

	vial_sandbox_lost(sandbox, reason);
	vial_freeze_on_ended(sandbox);
	vial_sandbox_unref(sandbox);
}

static void on_frozen(VialInstance *instance, gpointer data)
{
	vial_freeze_on_frozen(data);
}

void vial_sandbox_listen(VialSandbox *sandbox)
{
	static const VialInstanceEvents events = { .frozen = on_frozen, .ended = on_ended };

	vial_instance_set_events(sandbox->instance, &events, sandbox);
}

void vial_sandbox_set_running(VialSandbox *sandbox, VialInstance *instance)
{
	sandbox->instance = instance;
	sandbox->last_active_ms = vial_time_monotonic_ms();
	vial_sandbox_listen(sandbox);
	if (sandbox->state != VIAL_STATE_RUNNING)
		vial_sandbox_set_state(sandbox, VIAL_STATE_RUNNING, NULL);
}

void vial_sandbox_forget(VialSandbox *sandbox)
{
	vial_store_delete_sandbox(sandbox->app->store, sandbox->id, NULL, NULL);
	g_hash_table_remove(sandbox->app->sandboxes->by_id, sandbox->id);
}

VialSandbox *vial_sandboxes_find(VialApp *app, const VialIdentity *identity, const char *id, GError **error)
{
	VialSandbox *sandbox = id ? g_hash_table_lookup(app->sandboxes->by_id, id) : NULL;

	if (sandbox && sandbox->state != VIAL_STATE_DELETED && strcmp(sandbox->project, identity->project) == 0)
		return sandbox;
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no sandbox %.*s", 40, id ? id : "");
	return NULL;
}

static int newest_first(gconstpointer a, gconstpointer b)
{
	const VialSandbox *left = *(VialSandbox *const *)a, *right = *(VialSandbox *const *)b;

	if (left->created_at_ms != right->created_at_ms)
		return left->created_at_ms > right->created_at_ms ? -1 : 1;
	return strcmp(left->id, right->id);
}

GPtrArray *vial_sandboxes_list(VialApp *app, const VialIdentity *identity)
{
	GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)vial_sandbox_unref);
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->sandboxes->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialSandbox *sandbox = value;

		if (sandbox->state != VIAL_STATE_DELETED && strcmp(sandbox->project, identity->project) == 0)
			g_ptr_array_add(list, vial_sandbox_ref(sandbox));
	}
	g_ptr_array_sort(list, newest_first);
	return list;
}

GPtrArray *vial_sandboxes_all(VialSandboxes *sandboxes)
{
	GPtrArray *all = g_ptr_array_new_with_free_func((GDestroyNotify)vial_sandbox_unref);
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, sandboxes->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		g_ptr_array_add(all, vial_sandbox_ref(value));
	return all;
}

guint vial_sandboxes_count(VialSandboxes *sandboxes)
{
	return g_hash_table_size(sandboxes->by_id);
}

GHashTable *vial_sandboxes_table(VialSandboxes *sandboxes)
{
	return sandboxes->by_id;
}
