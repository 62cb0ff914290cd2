/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hibernating: freeze -> checkpoint into ID.tmp -> seal -> rename to ID -> record HIBERNATED -> stop the guest.
 *
 * At every instant either the guest lives or a sealed ID does, and adopt.c knows from the record and from what it finds which of the two to take up.
 * A failed step undoes the ones before it. A guest that dies once its image is in place has lost nothing.
 */
#include <errno.h>
#include <glib/gstdio.h>

#include "service/freeze.h"
#include "service/manifest.h"
#include "service/memory_of.h"
#include "service/quota.h"
#include "service/sandbox_private.h"
#include "service/slots.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/tree.h"
#include "util/worker.h"

typedef struct {
	VialTransition base;
	char *temporary;
	char *image;
	json_t *facts;
	GError *error;
	int gate_fd; /* of its network slot, which is shut; -1: its connections end */
	gboolean is_connected;
	gboolean is_rest;
	VialSandboxDone done;
	gpointer data;
} Hibernation;

char *vial_hibernation_dir(VialApp *app, const char *sandbox_id)
{
	return g_build_filename(app->config->data_dir, "hibernated", sandbox_id, NULL);
}

json_t *vial_sandbox_facts(const VialSandbox *sandbox, const char *kind)
{
	json_t *layers = sandbox->layers ? json_array() : NULL;

	for (char **layer = sandbox->layers; layer && *layer; layer++)
		json_array_append_new(layers, json_string(*layer));
	return json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:s*, s:o*, s:s*, s:f, s:I, s:I, s:I, s:O, s:s*, s:s*, s:o*}", "kind", kind, "sandbox_id",
	                 sandbox->id, "template", sandbox->template_name, "template_hash", sandbox->template_hash, "rootfs", sandbox->rootfs,
	                 "runtime_dir", sandbox->runtime_dir, "layers", layers, "workdir", sandbox->workdir, "cpu", sandbox->limits.cpu, "memory_mb",
	                 (json_int_t)sandbox->limits.memory_mb, "disk_mb", (json_int_t)sandbox->limits.disk_mb, "process_limit",
	                 (json_int_t)sandbox->limits.process_limit, "env", sandbox->env, "agent", sandbox->agent, "user", sandbox->user, "memory_of",
	                 vial_memory_of_json(sandbox->memory_of));
}

static void hibernation_settle(VialTransition *transition, const GError *error)
{
	g_autofree Hibernation *hibernation = (Hibernation *)transition;

	if (hibernation->done)
		hibernation->done(error ? NULL : transition->sandbox, error, hibernation->data);
	vial_fd_clear(&hibernation->gate_fd);
	json_decref(hibernation->facts);
	g_clear_error(&hibernation->error);
	g_free(hibernation->temporary);
	g_free(hibernation->image);
}

/* With the error of the step that failed in `hibernation`; `error` is the thaw's, whose guest is lost then. */
static void on_undone(const GError *error, gpointer data)
{
	Hibernation *hibernation = data;
	VialSandbox *sandbox = hibernation->base.sandbox;

	vial_tree_remove_later(hibernation->temporary);
	if (hibernation->gate_fd >= 0)
		vial_slots_reopen(sandbox->app->slots, sandbox->host_id);
	if (sandbox->state == VIAL_STATE_HIBERNATING && sandbox->instance) {
		vial_sandbox_set_state(sandbox, VIAL_STATE_RUNNING, NULL);
		vial_sandbox_store(sandbox);
	}
	vial_transition_end(&hibernation->base, hibernation->error);
}

static void on_swept(const char *reason, gpointer data)
{
	Hibernation *hibernation = data;

	vial_transition_end(&hibernation->base, NULL);
}

static void on_stored(const GError *error, gpointer data)
{
	Hibernation *hibernation = data;
	VialSandbox *sandbox = hibernation->base.sandbox;

	/* Even if the record could not be written, a restart finds the sealed image and no guest: the same end. */
	vial_fault("hibernate.stored");
	vial_log_info("sandbox", "hibernated", "sandbox_id", sandbox->id);
	if (!sandbox->instance) /* loss.c sweeps up */
		return vial_transition_end(&hibernation->base, NULL);
	vial_sandbox_drop_instance(sandbox);
	if (!hibernation->is_connected) {
		vial_sweep(sandbox->app, sandbox->host_id, NULL, NULL);
		return vial_transition_end(&hibernation->base, NULL);
	}
	/* The next host process in this slot must not meet this one. */
	vial_slots_park(sandbox->app->slots, sandbox->host_id, sandbox->id);
	vial_sweep(sandbox->app, sandbox->host_id, on_swept, hibernation);
}

static void seal_work(gpointer data)
{
	Hibernation *hibernation = data;
	VialManifests *manifests = hibernation->base.sandbox->app->manifests;

	if (!vial_manifest_seal(manifests, hibernation->temporary, hibernation->facts, &hibernation->error))
		return;
	hibernation->is_connected = hibernation->gate_fd >= 0 && vial_net_has_connections(hibernation->gate_fd);
	vial_tree_remove(hibernation->image);
	if (vial_fault("hibernate.rename") || g_rename(hibernation->temporary, hibernation->image) < 0)
		vial_fail(&hibernation->error, VIAL_ERROR_INTERNAL, "the hibernated state cannot be put in place: %s", g_strerror(errno));
	else
		vial_manifest_moved(manifests, hibernation->temporary, hibernation->image);
}

static void seal_done(gpointer data)
{
	Hibernation *hibernation = data;
	VialSandbox *sandbox = hibernation->base.sandbox;

	if (hibernation->error && sandbox->instance)
		return vial_freeze_thaw(sandbox, on_undone, hibernation);
	if (hibernation->error)
		return on_undone(hibernation->error, hibernation);
	vial_fault("hibernate.renamed");
	if (hibernation->is_rest)
		vial_sandbox_begin_rest(sandbox);
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

static void freeze(Hibernation *hibernation)
{
	VialSandbox *sandbox = hibernation->base.sandbox;

	if (sandbox->app->engine->carries_connections && vial_slots_shut(sandbox->app->slots, sandbox->host_id))
		hibernation->gate_fd = vial_net_slot_gate(vial_slots_find(sandbox->app->slots, sandbox->host_id));
	vial_sandbox_set_state(sandbox, VIAL_STATE_HIBERNATING, NULL);
	vial_sandbox_store(sandbox);
	vial_freeze_run(sandbox, hibernation->temporary, on_frozen, hibernation);
}

/* A paused guest cannot answer a FREEZE. */
static void on_resumed(json_t *result, const GError *error, gpointer data)
{
	Hibernation *hibernation = data;

	if (error)
		return vial_transition_end(&hibernation->base, error);
	vial_sandbox_set_state(hibernation->base.sandbox, VIAL_STATE_RUNNING, NULL);
	freeze(hibernation);
}

static gboolean may_hibernate(const VialSandbox *sandbox, gboolean is_rest, GError **error)
{
	g_autofree char *parent = g_build_filename(sandbox->app->config->data_dir, "hibernated", NULL);

	if (sandbox->active > 0 && !is_rest)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox is in use (%u requests) and cannot be hibernated now", sandbox->active);
	if (g_mkdir_with_parents(parent, 0700) < 0)
		return vial_fail(error, VIAL_ERROR_NO_SPACE, "there is no place for its state: %s", g_strerror(errno));
	return TRUE;
}

/* It slept already, and rests now. */
static void on_rest_stored(const GError *error, gpointer data)
{
	vial_transition_end(data, error);
}

static void hibernation_begin(VialTransition *transition)
{
	Hibernation *hibernation = (Hibernation *)transition;
	VialSandbox *sandbox = transition->sandbox;
	g_autoptr(GError) error = NULL;

	if (sandbox->state == VIAL_STATE_HIBERNATED && hibernation->is_rest && !sandbox->is_resting) {
		vial_sandbox_begin_rest(sandbox);
		return vial_sandbox_store_then(sandbox, on_rest_stored, hibernation);
	}
	if (sandbox->state == VIAL_STATE_HIBERNATED || !may_hibernate(sandbox, hibernation->is_rest, &error))
		return vial_transition_end(transition, error);
	hibernation->image = vial_hibernation_dir(sandbox->app, sandbox->id);
	hibernation->temporary = g_strdup_printf("%s.tmp", hibernation->image);
	hibernation->facts = vial_sandbox_facts(sandbox, "hibernation");
	vial_tree_remove(hibernation->temporary);
	if (sandbox->state == VIAL_STATE_PAUSED)
		vial_instance_resume(sandbox->instance, on_resumed, hibernation);
	else
		freeze(hibernation);
}

static const VialTransitionOps hibernation_ops = {
	.participle = "hibernated",
	.from = VIAL_FROM(RUNNING) | VIAL_FROM(PAUSED) | VIAL_FROM(HIBERNATED),
	.suspends_use = TRUE,
	.begin = hibernation_begin,
	.settle = hibernation_settle,
};

static void push(VialSandbox *sandbox, gboolean is_rest, VialSandboxDone done, gpointer data)
{
	Hibernation *hibernation = g_new0(Hibernation, 1);

	hibernation->gate_fd = -1;
	hibernation->is_rest = is_rest;
	hibernation->done = done;
	hibernation->data = data;
	vial_transition_push(&hibernation->base, &hibernation_ops, sandbox, VIAL_QUEUE_LAST);
}

void vial_sandbox_hibernate(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	push(sandbox, FALSE, done, data);
}

void vial_sandbox_rest(VialSandbox *sandbox, const VialIdentity *principal, VialSandboxDone done, gpointer data)
{
	if (principal)
		sandbox->rest_seconds = vial_ceiling_ttl(sandbox->app, principal);
	push(sandbox, TRUE, done, data);
}
