/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hibernation and waking, pausing and resuming.
 *
 * hibernate: freeze -> checkpoint into ID.tmp -> seal -> rename to ID -> record HIBERNATED -> stop the guest.
 * wake:      boot from ID -> record RUNNING -> remove ID.
 * At every instant either the guest lives or a sealed ID does, and adopt.c knows from the record and from what it finds which
 * of the two to take up. A failed step undoes the ones before it.
 */
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#include "service/boot.h"
#include "service/freeze.h"
#include "service/manifest.h"
#include "service/pool.h"
#include "service/sandbox_private.h"
#include "util/fault.h"
#include "util/log.h"
#include "util/time.h"
#include "util/tree.h"
#include "util/worker.h"

typedef struct {
	VialSandbox *sandbox;
	char *temporary;
	char *image;
	json_t *facts;
	GError *error;
	gint64 started_ms;
	VialSandboxDone done;
	gpointer data;
} Hibernation;

char *vial_hibernation_dir(VialApp *app, const char *sandbox_id)
{
	return g_build_filename(app->config->data_dir, "hibernated", sandbox_id, NULL);
}

json_t *vial_sandbox_facts(const VialSandbox *sandbox, const char *kind)
{
	return json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:s*, s:f, s:I, s:I, s:I, s:O}", "kind", kind, "sandbox_id", sandbox->id, "template",
	                 sandbox->template_name, "template_hash", sandbox->template_hash, "rootfs", sandbox->rootfs, "runtime_dir",
	                 sandbox->runtime_dir, "cpu", sandbox->limits.cpu, "memory_mb", (json_int_t)sandbox->limits.memory_mb, "disk_mb",
	                 (json_int_t)sandbox->limits.disk_mb, "process_limit", (json_int_t)sandbox->limits.process_limit, "env", sandbox->env);
}

/* Hibernating */

static void hibernation_end(Hibernation *hibernation)
{
	VialSandbox *sandbox = hibernation->sandbox;

	sandbox->transition = NULL;
	if (hibernation->done)
		hibernation->done(hibernation->error ? NULL : sandbox, hibernation->error, hibernation->data);
	json_decref(hibernation->facts);
	g_clear_error(&hibernation->error);
	g_free(hibernation->temporary);
	g_free(hibernation->image);
	g_free(hibernation);
	vial_sandbox_transition_done(sandbox);
	vial_sandbox_unref(sandbox);
}

static void on_undone(const GError *error, gpointer data)
{
	Hibernation *hibernation = data;
	VialSandbox *sandbox = hibernation->sandbox;

	vial_tree_remove_later(hibernation->temporary);
	if (sandbox->state == VIAL_STATE_HIBERNATING && sandbox->instance)
		vial_sandbox_set_state(sandbox, VIAL_STATE_RUNNING, NULL);
	vial_sandbox_store(sandbox);
	hibernation_end(hibernation);
}

static void on_stored(const GError *error, gpointer data)
{
	Hibernation *hibernation = data;
	VialSandbox *sandbox = hibernation->sandbox;

	/* Even if the record could not be written, a restart finds the sealed image and no guest: the same end. */
	vial_fault("hibernate.stored");
	if (sandbox->instance)
		vial_instance_stop(sandbox->instance);
	g_clear_pointer(&sandbox->instance, vial_instance_free);
	vial_sweep(sandbox->app, sandbox->host_id, NULL, NULL);
	vial_log_info("sandbox", "hibernated", "sandbox_id", sandbox->id);
	hibernation_end(hibernation);
}

static void seal_work(gpointer data)
{
	Hibernation *hibernation = data;
	VialManifests *manifests = hibernation->sandbox->app->manifests;

	if (!vial_manifest_seal(manifests, hibernation->temporary, hibernation->facts, &hibernation->error))
		return;
	vial_tree_remove(hibernation->image);
	if (vial_fault("hibernate.rename") || g_rename(hibernation->temporary, hibernation->image) < 0)
		vial_fail(&hibernation->error, VIAL_ERROR_INTERNAL, "the hibernated state cannot be put in place: %s", g_strerror(errno));
	else
		vial_manifest_moved(manifests, hibernation->temporary, hibernation->image);
}

static void seal_done(gpointer data)
{
	Hibernation *hibernation = data;
	VialSandbox *sandbox = hibernation->sandbox;

	if (hibernation->error && sandbox->instance)
		return vial_thaw(sandbox, on_undone, hibernation);
	if (hibernation->error || sandbox->state != VIAL_STATE_HIBERNATING)
		return on_undone(hibernation->error, hibernation);
	vial_fault("hibernate.renamed");
	vial_sandbox_set_state(sandbox, VIAL_STATE_HIBERNATED, NULL);
	vial_sandbox_store_then(sandbox, on_stored, hibernation);
}

static void on_frozen(const GError *error, gpointer data)
{
	Hibernation *hibernation = data;

	if (error) {
		hibernation->error = g_error_copy(error);
		return on_undone(error, hibernation);
	}
	vial_worker_run(seal_work, seal_done, hibernation);
}

static void begin_freeze(Hibernation *hibernation)
{
	VialSandbox *sandbox = hibernation->sandbox;

	vial_sandbox_set_state(sandbox, VIAL_STATE_HIBERNATING, NULL);
	vial_sandbox_store(sandbox);
	vial_freeze(sandbox, hibernation->temporary, TRUE, on_frozen, hibernation);
}

static void on_resumed_first(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Hibernation *hibernation = data;

	if (error) {
		hibernation->error = g_error_copy(error);
		return hibernation_end(hibernation);
	}
	sandbox->transition = hibernation;
	begin_freeze(hibernation);
}

void vial_sandbox_hibernate(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *parent = g_build_filename(sandbox->app->config->data_dir, "hibernated", NULL);
	Hibernation *hibernation;

	if (sandbox->state == VIAL_STATE_HIBERNATED) {
		if (done)
			done(sandbox, NULL, data);
		return;
	}
	if (g_mkdir_with_parents(parent, 0700) < 0)
		vial_fail(&error, VIAL_ERROR_NO_SPACE, "there is no place for its state: %s", g_strerror(errno));
	if (error || !vial_sandbox_is_free(sandbox, "hibernated", &error)) {
		if (done)
			done(NULL, error, data);
		return;
	}
	hibernation = g_new0(Hibernation, 1);
	hibernation->sandbox = vial_sandbox_ref(sandbox);
	hibernation->image = vial_hibernation_dir(sandbox->app, sandbox->id);
	hibernation->temporary = g_strdup_printf("%s.tmp", hibernation->image);
	hibernation->facts = vial_sandbox_facts(sandbox, "hibernation");
	hibernation->done = done;
	hibernation->data = data;
	vial_tree_remove(hibernation->temporary);
	if (sandbox->state == VIAL_STATE_PAUSED)
		return vial_sandbox_resume(sandbox, on_resumed_first, hibernation);
	sandbox->transition = hibernation;
	begin_freeze(hibernation);
}

/* Waking */

typedef struct {
	VialSandbox *sandbox;
	char *image;
	char *host_id;
	char *generation;
	gint64 started_ms;
} Waking;

static void waking_free(Waking *waking)
{
	g_free(waking->image);
	g_free(waking->host_id);
	g_free(waking->generation);
	g_free(waking);
}

static void on_wake_stored(const GError *error, gpointer data)
{
	vial_tree_remove_later(data);
	g_free(data);
}

static void on_woken(VialInstance *instance, const GError *error, gpointer data)
{
	Waking *waking = data;
	VialSandbox *sandbox = waking->sandbox;

	if (error) {
		vial_log_warning("sandbox", "could not be woken", "sandbox_id", sandbox->id, "error", error->message);
		vial_sandbox_set_state(sandbox, VIAL_STATE_HIBERNATED, NULL);
		vial_sandbox_store(sandbox);
	} else {
		g_free(sandbox->generation);
		sandbox->generation = g_steal_pointer(&waking->generation);
		sandbox->boot_ms = vial_time_monotonic_ms() - waking->started_ms;
		vial_sandbox_set_running(sandbox, instance);
		/* Only when the record says so for good is the old state worth nothing. */
		vial_sandbox_store_then(sandbox, on_wake_stored, g_strdup(waking->image));
	}
	waking_free(waking);
	sandbox->transition = NULL;
	vial_sandbox_wake_waiters_done(sandbox, error);
	vial_sandbox_transition_done(sandbox);
	vial_sandbox_unref(sandbox);
}

void vial_sandbox_begin_wake(VialSandbox *sandbox)
{
	Waking *waking = g_new0(Waking, 1);
	VialBootSpec spec = {
		.sandbox_id = sandbox->id,
		.rootfs = sandbox->rootfs,
		.runtime_dir = sandbox->runtime_dir,
		.limits = sandbox->limits,
		.env = sandbox->env,
		.network = sandbox->network,
	};

	waking->sandbox = vial_sandbox_ref(sandbox);
	waking->image = vial_hibernation_dir(sandbox->app, sandbox->id);
	waking->generation = vial_generation_new();
	waking->started_ms = vial_time_monotonic_ms();
	spec.image = waking->image;
	spec.generation = waking->generation;
	vial_pool_fill_spec(sandbox->app, &spec, &waking->host_id);
	g_free(sandbox->host_id);
	sandbox->host_id = g_strdup(waking->host_id);
	sandbox->transition = waking;
	vial_sandbox_set_state(sandbox, VIAL_STATE_WAKING, NULL);
	vial_sandbox_store(sandbox);
	vial_boot(sandbox->app, &spec, on_woken, waking);
}

void vial_sandbox_wake(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	vial_sandbox_add_wake_waiter(sandbox, done, data);
	/* While it is still being put to sleep, the end of that wakes it again. */
	if (sandbox->state == VIAL_STATE_HIBERNATED && !sandbox->transition)
		vial_sandbox_begin_wake(sandbox);
}

/* Pausing */

typedef struct {
	VialSandbox *sandbox;
	VialState target;
	VialSandboxDone done;
	gpointer data;
} Pausing;

static void on_paused(json_t *result, const GError *error, gpointer data)
{
	g_autofree Pausing *pausing = data;
	VialSandbox *sandbox = pausing->sandbox;

	sandbox->transition = NULL;
	if (!error && sandbox->instance) {
		vial_sandbox_set_state(sandbox, pausing->target, NULL);
		vial_sandbox_store(sandbox);
	}
	sandbox->last_active_ms = vial_time_monotonic_ms();
	pausing->done(error ? NULL : sandbox, error, pausing->data);
	vial_sandbox_transition_done(sandbox);
	vial_sandbox_unref(sandbox);
}

static void pause_or_resume(VialSandbox *sandbox, VialState target, VialSandboxDone done, gpointer data)
{
	g_autoptr(GError) error = NULL;
	Pausing *pausing;

	if (sandbox->state == target) {
		done(sandbox, NULL, data);
		return;
	}
	if (sandbox->transition || !sandbox->instance || !vial_state_may_follow(sandbox->state, target)) {
		error = g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "the sandbox is %s and cannot be %s now", vial_state_name(sandbox->state),
		                    target == VIAL_STATE_PAUSED ? "paused" : "resumed");
		done(NULL, error, data);
		return;
	}
	pausing = g_new0(Pausing, 1);
	*pausing = (Pausing){ vial_sandbox_ref(sandbox), target, done, data };
	sandbox->transition = pausing;
	if (target == VIAL_STATE_PAUSED)
		vial_instance_pause(sandbox->instance, on_paused, pausing);
	else
		vial_instance_resume(sandbox->instance, on_paused, pausing);
}

void vial_sandbox_pause(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	pause_or_resume(sandbox, VIAL_STATE_PAUSED, done, data);
}

void vial_sandbox_resume(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	pause_or_resume(sandbox, VIAL_STATE_RUNNING, done, data);
}
