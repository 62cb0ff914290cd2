/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox object and its registry; what may happen to one is in the files named after it (create.c, acquire.c, delete.c, ...), each a transition.
 */
#include "service/sandbox_private.h"

#include <string.h>

#include "service/boot.h"
#include "service/freeze.h"
#include "service/meter.h"
#include "service/pool.h"
#include "service/sessions.h"
#include "util/id.h"
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
	vial_journal_unref(sandbox->journal);
	g_free(sandbox->id);
	g_free(sandbox->project);
	g_free(sandbox->key_id);
	g_free(sandbox->template_name);
	g_free(sandbox->build);
	g_free(sandbox->template_hash);
	g_free(sandbox->rootfs);
	g_strfreev(sandbox->layers);
	g_free(sandbox->workdir);
	g_free(sandbox->reason);
	g_free(sandbox->runtime_dir);
	g_free(sandbox->host_id);
	g_free(sandbox->generation);
	g_free(sandbox->slot_name);
	g_free(sandbox->boot_mode);
	g_free(sandbox->agent);
	g_free(sandbox->session);
	g_free(sandbox->user);
	g_strfreev(sandbox->memory_of);
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
	g_queue_init(&sandbox->transitions);
	sandbox->journal = vial_journal_new();
	g_hash_table_insert(app->sandboxes->by_id, sandbox->id, sandbox);
	vial_clocks_hasten(app->sandboxes);
	return sandbox;
}

VialApp *vial_sandbox_app(const VialSandbox *sandbox)
{
	return sandbox->app;
}

const char *vial_sandbox_id(const VialSandbox *sandbox)
{
	return sandbox->id;
}

const char *vial_sandbox_host_id(const VialSandbox *sandbox)
{
	return sandbox->host_id;
}

const char *vial_sandbox_template(const VialSandbox *sandbox)
{
	return sandbox->template_name;
}

const char *vial_sandbox_workdir(const VialSandbox *sandbox)
{
	return sandbox->workdir;
}

const char *vial_sandbox_agent(const VialSandbox *sandbox)
{
	return sandbox->agent;
}

const char *vial_sandbox_reason(const VialSandbox *sandbox)
{
	return sandbox->reason;
}

const char *vial_sandbox_project(const VialSandbox *sandbox)
{
	return sandbox->project;
}

VialState vial_sandbox_state(const VialSandbox *sandbox)
{
	return sandbox->state;
}

gint64 vial_sandbox_created_at_ms(const VialSandbox *sandbox)
{
	return sandbox->created_at_ms;
}

gint64 vial_sandbox_expires_at_ms(const VialSandbox *sandbox)
{
	return sandbox->expires_at_ms;
}

const json_t *vial_sandbox_metadata(const VialSandbox *sandbox)
{
	return sandbox->metadata;
}

const VialLimits *vial_sandbox_limits(const VialSandbox *sandbox)
{
	return &sandbox->limits;
}

json_t *vial_sandbox_network(const VialSandbox *sandbox)
{
	return sandbox->network;
}

VialJournal *vial_sandbox_journal(const VialSandbox *sandbox)
{
	return sandbox->journal;
}

gboolean vial_sandbox_is_persistent(const VialSandbox *sandbox)
{
	return sandbox->persistent;
}

gboolean vial_sandbox_is_resting(const VialSandbox *sandbox)
{
	return sandbox->is_resting;
}

gboolean vial_sandbox_rests_when_over(const VialSandbox *sandbox)
{
	return sandbox->rests_when_over;
}

gboolean vial_sandbox_wakes_by_use(const VialSandbox *sandbox)
{
	return sandbox->wakes_by_use;
}

gboolean vial_sandbox_is_damaged(const VialSandbox *sandbox)
{
	return sandbox->is_damaged;
}

void vial_sandbox_set_state(VialSandbox *sandbox, VialState state, const char *reason)
{
	g_autofree char *old = NULL;
	VialState from = sandbox->state;

	if (!vial_state_may_follow(sandbox->state, state)) {
		vial_log_error("sandbox", "a transition that the table forbids was refused", "sandbox_id", sandbox->id, "from",
		               vial_state_name(sandbox->state), "to", vial_state_name(state));
		return;
	}
	vial_log_info("sandbox", "state changed", "sandbox_id", sandbox->id, "from", vial_state_name(sandbox->state), "to", vial_state_name(state));
	sandbox->state = state;
	vial_meter_state_changed(sandbox, from, state);
	vial_clocks_hasten(sandbox->app->sandboxes);
	/* `reason` may be the sandbox's own. */
	old = sandbox->reason;
	sandbox->reason = g_strdup(reason);
	reason = sandbox->reason;
	if (from == VIAL_STATE_FAILED && state != VIAL_STATE_DELETED)
		vial_journal_reopen(sandbox->journal);
	vial_journal_add_event(sandbox->journal, "the sandbox is %s%s%s", vial_state_name(state), reason ? ": " : "", reason ? reason : "");
	if (state == VIAL_STATE_DELETED || state == VIAL_STATE_FAILED)
		vial_journal_close(sandbox->journal);
	if (state == VIAL_STATE_DELETED)
		vial_session_unbind(sandbox);
}

/* How often the time of a session's last call is written down while it is in use; what sleeps has the exact one. */
#define TELL_CALLS_MS 60000

void vial_sandbox_called(VialSandbox *sandbox)
{
	sandbox->last_call_at_ms = vial_time_now_ms();
	if (ABS(sandbox->last_call_at_ms - sandbox->told_last_call_at_ms) >= TELL_CALLS_MS)
		vial_sandbox_store(sandbox);
}

void vial_sandbox_prepared(VialSandbox *sandbox, VialStoreDone done, gpointer data)
{
	sandbox->is_unprepared = FALSE;
	vial_sandbox_store_then(sandbox, done, data);
}

void vial_sandbox_set_ttl(VialSandbox *sandbox, gint64 ttl_seconds)
{
	sandbox->ttl_seconds = ttl_seconds;
	if (sandbox->is_resting)
		return;
	sandbox->expires_at_ms = ttl_seconds > 0 ? vial_time_now_ms() + ttl_seconds * 1000 : 0;
	vial_clocks_hasten(sandbox->app->sandboxes);
}

void vial_sandbox_begin_rest(VialSandbox *sandbox)
{
	sandbox->is_resting = TRUE;
	sandbox->expires_at_ms = sandbox->rest_seconds > 0 ? vial_time_now_ms() + sandbox->rest_seconds * 1000 : 0;
	vial_clocks_hasten(sandbox->app->sandboxes);
}

static void end_rest(VialSandbox *sandbox)
{
	sandbox->is_resting = FALSE;
	vial_sandbox_set_ttl(sandbox, sandbox->ttl_seconds);
}

void vial_sandbox_drop_instance(VialSandbox *sandbox)
{
	/* Out of sight first: what is under way in it fails now, and looks whether there is still a guest. */
	VialInstance *instance = g_steal_pointer(&sandbox->instance);

	if (!instance)
		return;
	vial_instance_set_events(instance, &(VialInstanceEvents){ 0 }, NULL);
	vial_instance_stop(instance);
	vial_instance_free(instance);
}

static void on_ended(VialInstance *instance, const char *reason, gpointer data)
{
	vial_sandbox_guest_ended(data, reason);
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
	if (sandbox->is_resting)
		end_rest(sandbox);
	if (sandbox->state != VIAL_STATE_RUNNING)
		vial_sandbox_set_state(sandbox, VIAL_STATE_RUNNING, NULL);
}

VialBootSpec vial_sandbox_boot_spec(const VialSandbox *sandbox)
{
	return (VialBootSpec){
		.sandbox_id = sandbox->id,
		.host_id = sandbox->host_id,
		.rootfs = sandbox->rootfs,
		.runtime_dir = sandbox->runtime_dir,
		.layers = (const char *const *)sandbox->layers,
		.workdir = sandbox->workdir,
		.limits = sandbox->limits,
		.generation = sandbox->generation,
		.env = sandbox->env,
		.network = sandbox->network,
	};
}

void vial_sandbox_choose_host(VialSandbox *sandbox, VialBootSpec *spec)
{
	g_clear_pointer(&sandbox->host_id, g_free);
	/* A blank lives in a slot of its own, and its root is not as a build's must be. */
	if (spec->is_resumed || sandbox->build)
		spec->host_id = sandbox->host_id = vial_id_new();
	else
		vial_pool_fill_spec(sandbox->app, spec, &sandbox->host_id);
}

void vial_sandbox_forget(VialSandbox *sandbox)
{
	vial_session_unbind(sandbox);
	vial_store_delete_sandbox(sandbox->app->store, sandbox->id, NULL, NULL);
	g_hash_table_remove(sandbox->app->sandboxes->by_id, sandbox->id);
}
