/* SPDX-License-Identifier: Apache-2.0 */
/* Using a sandbox, and what its clocks do: ttl is a hard end, idleness a policy. */
#include <string.h>

#include "service/sandbox_private.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

#define TICK_SECONDS 1
/* A failed sandbox is shown to its owner for a while, then forgotten. */
#define KEEP_FAILED_MS (3600 * 1000)

static GError *refuse_use(const VialSandbox *sandbox)
{
	switch (sandbox->state) {
	case VIAL_STATE_RUNNING:
		return sandbox->instance ? NULL :
		                           g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the sandbox has just ended; ask for its status");
	case VIAL_STATE_PAUSED:
		return g_error_new_literal(VIAL_ERROR, VIAL_ERROR_CONFLICT, "the sandbox is paused; resume it first");
	case VIAL_STATE_FAILED:
		return g_error_new(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the sandbox has failed: %s",
		                   sandbox->reason ? sandbox->reason : "no reason is known");
	case VIAL_STATE_HIBERNATED:
	case VIAL_STATE_HIBERNATING:
	case VIAL_STATE_WAKING:
		return NULL;
	default:
		return g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "the sandbox is %s; wait until it runs", vial_state_name(sandbox->state));
	}
}

typedef struct {
	VialSandboxDone done;
	gpointer data;
} Waiter;

static void hold(VialSandbox *sandbox)
{
	vial_sandbox_ref(sandbox);
	sandbox->active++;
}

void vial_sandbox_acquire(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	g_autoptr(GError) error = refuse_use(sandbox);

	if (error) {
		done(NULL, error, data);
		return;
	}
	if (sandbox->state != VIAL_STATE_RUNNING)
		return vial_sandbox_wake(sandbox, done, data);
	hold(sandbox);
	done(sandbox, NULL, data);
}

/* Waiters for a wake are acquirers too, or requests that want nothing but the wake (done is NULL or releases). */
void vial_sandbox_add_wake_waiter(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	Waiter *waiter = g_new0(Waiter, 1);

	*waiter = (Waiter){ done, data };
	g_ptr_array_add(sandbox->wake_waiters, waiter);
}

void vial_sandbox_wake_waiters_done(VialSandbox *sandbox, const GError *error)
{
	g_autoptr(GPtrArray) waiters = g_steal_pointer(&sandbox->wake_waiters);

	sandbox->wake_waiters = g_ptr_array_new_with_free_func(g_free);
	for (guint i = 0; i < waiters->len; i++) {
		Waiter *waiter = waiters->pdata[i];

		if (!error)
			hold(sandbox);
		waiter->done(error ? NULL : sandbox, error, waiter->data);
	}
}

void vial_sandbox_transition_done(VialSandbox *sandbox)
{
	g_autoptr(GError) error = NULL;

	if (sandbox->transition || sandbox->freeze)
		return;
	if (sandbox->delete_wanted && sandbox->state != VIAL_STATE_DELETED)
		return vial_sandbox_delete(sandbox, NULL, NULL);
	if (sandbox->wake_waiters->len == 0)
		return;
	if (sandbox->state == VIAL_STATE_HIBERNATED)
		return vial_sandbox_begin_wake(sandbox);
	if (sandbox->state != VIAL_STATE_RUNNING)
		error = refuse_use(sandbox);
	vial_sandbox_wake_waiters_done(sandbox, error);
}

gboolean vial_sandbox_is_free(const VialSandbox *sandbox, const char *verb, GError **error)
{
	if (sandbox->transition || sandbox->freeze || !sandbox->instance ||
	    (sandbox->state != VIAL_STATE_RUNNING && sandbox->state != VIAL_STATE_PAUSED))
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox is %s and cannot be %s now", vial_state_name(sandbox->state), verb);
	if (sandbox->active > 0)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox is in use (%u requests) and cannot be %s now", sandbox->active, verb);
	return TRUE;
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

static gboolean is_expired(const VialSandbox *sandbox, gint64 now_ms)
{
	return sandbox->expires_at_ms > 0 && now_ms >= sandbox->expires_at_ms;
}

static gboolean is_idle(const VialSandbox *sandbox, gint64 monotonic_ms)
{
	return sandbox->state == VIAL_STATE_RUNNING && !sandbox->transition && sandbox->idle_seconds > 0 && sandbox->active == 0 &&
	       monotonic_ms - sandbox->last_active_ms >= sandbox->idle_seconds * 1000;
}

static void apply_clocks(VialSandbox *sandbox, gint64 now_ms, gint64 monotonic_ms)
{
	if (is_expired(sandbox, now_ms)) {
		vial_log_info("sandbox", "its time is up", "sandbox_id", sandbox->id);
		vial_sandbox_delete(sandbox, NULL, NULL);
	} else if (sandbox->state == VIAL_STATE_FAILED && monotonic_ms - sandbox->last_active_ms > KEEP_FAILED_MS) {
		vial_sandbox_delete(sandbox, NULL, NULL);
	} else if (is_idle(sandbox, monotonic_ms) && sandbox->on_idle == VIAL_ON_IDLE_DELETE) {
		vial_log_info("sandbox", "idle for too long", "sandbox_id", sandbox->id);
		vial_sandbox_delete(sandbox, NULL, NULL);
	} else if (is_idle(sandbox, monotonic_ms)) {
		/* Should it fail, the next try comes after another idle time rather than every second. */
		sandbox->last_active_ms = monotonic_ms;
		vial_sandbox_hibernate(sandbox, NULL, NULL);
	}
}

static gboolean on_tick(gpointer data)
{
	VialSandboxes *sandboxes = data;
	g_autoptr(GPtrArray) all = vial_sandboxes_all(sandboxes);
	gint64 now_ms = vial_time_now_ms(), monotonic_ms = vial_time_monotonic_ms();

	for (guint i = 0; i < all->len; i++)
		apply_clocks(all->pdata[i], now_ms, monotonic_ms);
	return G_SOURCE_CONTINUE;
}

VialSandboxes *vial_sandboxes_new(VialApp *app)
{
	VialSandboxes *sandboxes = g_new0(VialSandboxes, 1);

	sandboxes->app = app;
	sandboxes->by_id = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)vial_sandbox_unref);
	sandboxes->tick = g_timeout_add_seconds(TICK_SECONDS, on_tick, sandboxes);
	return sandboxes;
}

void vial_sandboxes_free(VialSandboxes *sandboxes)
{
	if (!sandboxes)
		return;
	g_source_remove(sandboxes->tick);
	g_hash_table_unref(sandboxes->by_id);
	g_free(sandboxes);
}

gboolean vial_sandbox_set_lifecycle(VialSandbox *sandbox, json_t *body, GError **error)
{
	static const char *const choices[] = { "delete", "hibernate", NULL };
	const VialConfig *config = sandbox->app->config;
	gint64 ttl = -1, idle = sandbox->idle_seconds;
	gboolean persistent = sandbox->persistent;
	int on_idle = -1;

	/* Absent means "as it is"; null could as well be meant as "none". */
	if (!vial_json_get_int(body, "ttl_seconds", VIAL_JSON_NOT_NULL, 0, G_MAXINT32, &ttl, error) ||
	    !vial_json_get_int(body, "idle_seconds", VIAL_JSON_NOT_NULL, 0, G_MAXINT32, &idle, error) ||
	    !vial_json_get_bool(body, "persistent", VIAL_JSON_NOT_NULL, &persistent, error) ||
	    !vial_json_get_choice(body, "on_idle", VIAL_JSON_NOT_NULL, choices, &on_idle, error))
		return FALSE;
	if (ttl >= 0 && config->max_ttl_seconds > 0 && !persistent && (ttl == 0 || ttl > config->max_ttl_seconds))
		return vial_fail(error, VIAL_ERROR_INVALID, "ttl_seconds must be between 1 and %" G_GINT64_FORMAT " here",
		                 (gint64)config->max_ttl_seconds);
	if (persistent != sandbox->persistent && on_idle < 0)
		sandbox->on_idle = persistent ? VIAL_ON_IDLE_HIBERNATE : VIAL_ON_IDLE_DELETE;
	if (on_idle >= 0)
		sandbox->on_idle = (VialOnIdle)on_idle;
	/* Made persistent without a new ttl, it loses its end; made ordinary again, it gets the default one. */
	if (ttl < 0 && persistent != sandbox->persistent)
		ttl = persistent ? 0 : config->default_ttl_seconds;
	sandbox->persistent = persistent;
	sandbox->idle_seconds = idle;
	if (ttl >= 0)
		vial_sandbox_set_ttl(sandbox, ttl);
	sandbox->last_active_ms = vial_time_monotonic_ms();
	return TRUE;
}
