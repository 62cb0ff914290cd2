/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox's clocks: ttl is a hard end, idleness a policy (delete or hibernate); and PATCH lifecycle, which sets them.
 *
 * One timer for all, which goes off when the first of them could be due, and not at all where there is no sandbox. Using a sandbox only puts that
 * off, so nobody tells us of it. What can bring it nearer, a new sandbox, another state or another time to live, does (vial_clocks_hasten).
 */
#include "service/quota.h"
#include "service/sandbox_private.h"
#include "service/webhook.h"
#include "util/log.h"
#include "util/time.h"

/* Never oftener, so that a thousand sandboxes are looked at together. */
#define TICK_SECONDS 1
/* Never later: a time to live is the wall clock's, which may be set, or run on while the machine was suspended. */
#define MAX_TICK_SECONDS 10
/* A failed sandbox is shown to its owner for a while, then forgotten. */
#define KEEP_FAILED_MS (3600 * 1000)
/* One that should rest and could not, for lack of disk say, is tried again. */
#define RETRY_REST_MS (60 * 1000)

static gboolean is_expired(const VialSandbox *sandbox, gint64 now_ms)
{
	return sandbox->expires_at_ms > 0 && now_ms >= sandbox->expires_at_ms;
}

static gboolean is_idle(const VialSandbox *sandbox, gint64 monotonic_ms)
{
	return sandbox->state == VIAL_STATE_RUNNING && !vial_sandbox_is_busy(sandbox) && sandbox->idle_seconds > 0 && sandbox->active == 0 &&
	       monotonic_ms - sandbox->last_active_ms >= sandbox->idle_seconds * 1000;
}

static void on_frozen(VialSandbox *sandbox, const GError *error, gpointer data)
{
	if (sandbox)
		vial_webhook_send(sandbox->app->webhook,
		                  json_pack("{s:s, s:s, s:s, s:s, s:s, s:O, s:o}", "type", "sandbox.frozen", "space_id", sandbox->id, "sandbox_id",
		                            sandbox->id, "project", sandbox->project, "template", sandbox->template_name, "metadata",
		                            sandbox->metadata, "frozen_at_ms", json_integer(vial_time_now_ms())));
}

/* A rest that is over ends as everything else. */
static gboolean may_rest(const VialSandbox *sandbox)
{
	return sandbox->rests_when_over && !sandbox->is_resting && sandbox->state != VIAL_STATE_FAILED;
}

static void on_rested(VialSandbox *sandbox, const GError *error, gpointer data)
{
	VialSandbox *self = data;

	/* It may live until the next try. */
	if (error && self->expires_at_ms > 0)
		self->expires_at_ms = vial_time_now_ms() + RETRY_REST_MS;
	vial_sandbox_unref(self);
}

static void rest(VialSandbox *sandbox)
{
	vial_log_info("sandbox", "its time is up, and it rests", "sandbox_id", sandbox->id);
	vial_sandbox_record(sandbox, "sandbox.hibernate", "its ttl_seconds are over");
	vial_sandbox_rest(sandbox, NULL, on_rested, vial_sandbox_ref(sandbox));
}

static void apply_clocks(VialSandbox *sandbox, gint64 now_ms, gint64 monotonic_ms)
{
	if (sandbox->is_damaged) /* and so are its times */
		return;
	if (is_expired(sandbox, now_ms) && may_rest(sandbox)) {
		if (!vial_sandbox_is_busy(sandbox))
			rest(sandbox);
	} else if (is_expired(sandbox, now_ms)) {
		vial_log_info("sandbox", "its time is up", "sandbox_id", sandbox->id);
		vial_sandbox_record(sandbox, "sandbox.expire", "its ttl_seconds are over");
		vial_sandbox_delete(sandbox, NULL, NULL);
	} else if (sandbox->state == VIAL_STATE_FAILED && monotonic_ms - sandbox->last_active_ms > KEEP_FAILED_MS) {
		vial_sandbox_delete(sandbox, NULL, NULL);
	} else if (is_idle(sandbox, monotonic_ms) && sandbox->on_idle == VIAL_ON_IDLE_DELETE) {
		vial_log_info("sandbox", "idle for too long", "sandbox_id", sandbox->id);
		vial_sandbox_record(sandbox, "sandbox.expire", "idle for its idle_seconds");
		vial_sandbox_delete(sandbox, NULL, NULL);
	} else if (is_idle(sandbox, monotonic_ms)) {
		/* Should it fail, the next try comes after another idle time rather than every second. */
		sandbox->last_active_ms = monotonic_ms;
		vial_sandbox_record(sandbox, "sandbox.hibernate", "idle for its idle_seconds");
		vial_sandbox_hibernate(sandbox, on_frozen, NULL);
	}
}

/* When its next clock could be due at the earliest; G_MAXINT64: none. */
static gint64 due_in_ms(const VialSandbox *sandbox, gint64 now_ms, gint64 monotonic_ms)
{
	gint64 due_ms = G_MAXINT64;

	if (sandbox->is_damaged)
		return due_ms;
	if (sandbox->expires_at_ms > 0)
		due_ms = sandbox->expires_at_ms - now_ms;
	if (sandbox->state == VIAL_STATE_FAILED)
		due_ms = MIN(due_ms, sandbox->last_active_ms + KEEP_FAILED_MS + 1 - monotonic_ms);
	/* The time of one in use begins when it is let go. */
	if (sandbox->state == VIAL_STATE_RUNNING && sandbox->idle_seconds > 0)
		due_ms = MIN(due_ms, sandbox->idle_seconds * 1000 - (sandbox->active > 0 ? 0 : monotonic_ms - sandbox->last_active_ms));
	return due_ms;
}

static gboolean on_tick(gpointer data)
{
	VialSandboxes *sandboxes = data;
	g_autoptr(GPtrArray) all = vial_sandboxes_all(sandboxes);
	gint64 now_ms = vial_time_now_ms(), monotonic_ms = vial_time_monotonic_ms(), due_ms = G_MAXINT64;

	sandboxes->tick = 0;
	for (guint i = 0; i < all->len; i++) {
		apply_clocks(all->pdata[i], now_ms, monotonic_ms);
		due_ms = MIN(due_ms, due_in_ms(all->pdata[i], now_ms, monotonic_ms));
	}
	if (all->len > 0 && !sandboxes->tick) {
		sandboxes->tick_is_soon = due_ms <= TICK_SECONDS * 1000;
		sandboxes->tick = g_timeout_add_seconds((guint)CLAMP(due_ms / 1000 + 1, TICK_SECONDS, MAX_TICK_SECONDS), on_tick, sandboxes);
	}
	return G_SOURCE_REMOVE;
}

void vial_clocks_hasten(VialSandboxes *sandboxes)
{
	if (sandboxes->tick && sandboxes->tick_is_soon)
		return;
	g_clear_handle_id(&sandboxes->tick, g_source_remove);
	sandboxes->tick_is_soon = TRUE;
	sandboxes->tick = g_timeout_add_seconds(TICK_SECONDS, on_tick, sandboxes);
}

/* The longest life that may be asked for; 0: any. A persistent one has no end of the installation's, but of its project's. */
static gint64 longest_life(VialApp *app, const VialIdentity *principal, gboolean persistent)
{
	gint64 ceiling = vial_ceiling_ttl(app, principal), own = persistent ? 0 : app->config->max_ttl_seconds;

	return ceiling == 0 || own == 0 ? MAX(ceiling, own) : MIN(ceiling, own);
}

gboolean vial_sandbox_choose_ttl(VialApp *app, const VialIdentity *principal, gboolean persistent, gint64 *ttl, GError **error)
{
	gint64 longest = longest_life(app, principal, persistent);

	if (*ttl == VIAL_TTL_LONGEST)
		*ttl = longest;
	if (*ttl < 0) {
		*ttl = persistent ? 0 : app->config->default_ttl_seconds;
		if (longest > 0 && (*ttl == 0 || *ttl > longest) && vial_ceiling_ttl(app, principal) > 0)
			*ttl = longest;
	}
	if (longest == 0 || (*ttl > 0 && *ttl <= longest))
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID, "ttl_seconds must be between 1 and %" G_GINT64_FORMAT " here", longest);
}

void vial_sandbox_try_for(VialSandbox *sandbox, gint64 trial_seconds)
{
	if (sandbox->ttl_seconds > 0 && sandbox->ttl_seconds <= trial_seconds)
		return; /* it does not live longer anyway */
	sandbox->is_on_trial = TRUE;
	sandbox->life_seconds = sandbox->ttl_seconds;
	vial_sandbox_set_ttl(sandbox, trial_seconds);
}

void vial_sandbox_end_trial(VialSandbox *sandbox)
{
	if (!sandbox->is_on_trial)
		return;
	sandbox->is_on_trial = FALSE;
	vial_sandbox_set_ttl(sandbox, sandbox->life_seconds);
}

gboolean vial_sandbox_may_live(const VialSandbox *sandbox, const VialIdentity *principal, gint64 ttl_seconds, GError **error)
{
	return vial_sandbox_choose_ttl(sandbox->app, principal, sandbox->persistent, &ttl_seconds, error);
}

static gboolean is_longer(const VialSandbox *sandbox, gint64 ttl_seconds)
{
	return sandbox->expires_at_ms > 0 && (ttl_seconds == 0 || vial_time_now_ms() + ttl_seconds * 1000 > sandbox->expires_at_ms);
}

gboolean vial_sandbox_set_lifecycle(VialSandbox *sandbox, const VialIdentity *principal, const VialLifecycle *lifecycle, GError **error)
{
	gboolean persistent = lifecycle->persistent >= 0 ? lifecycle->persistent : sandbox->persistent;
	gboolean changes = persistent != sandbox->persistent;
	gint64 ttl = lifecycle->ttl_seconds;

	/* Made persistent without a new ttl, it loses its end; made ordinary again, it gets the default one. */
	if ((ttl >= 0 || changes) && !vial_sandbox_choose_ttl(sandbox->app, principal, persistent, &ttl, error))
		return FALSE;
	if (changes)
		sandbox->on_idle = persistent ? VIAL_ON_IDLE_HIBERNATE : VIAL_ON_IDLE_DELETE;
	if (lifecycle->on_idle >= 0)
		sandbox->on_idle = (VialOnIdle)lifecycle->on_idle;
	sandbox->persistent = persistent;
	if (lifecycle->rests_when_over >= 0)
		sandbox->rests_when_over = lifecycle->rests_when_over;
	if (lifecycle->idle_seconds >= 0)
		sandbox->idle_seconds = lifecycle->idle_seconds;
	if (ttl >= 0 && (!lifecycle->only_longer || is_longer(sandbox, ttl))) {
		sandbox->is_on_trial = FALSE;
		vial_sandbox_set_ttl(sandbox, ttl);
	}
	sandbox->last_active_ms = vial_time_monotonic_ms();
	vial_clocks_hasten(sandbox->app->sandboxes);
	return TRUE;
}
