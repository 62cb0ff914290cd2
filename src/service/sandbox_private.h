/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make up the sandbox service. */
#pragma once

#include "service/sandbox.h"

struct VialSandboxes {
	VialApp *app;
	GHashTable *by_id; /* holds a reference each */
	guint tick;
};

/* An object in the registry, in state CREATING. */
VialSandbox *vial_sandbox_new(VialApp *app, const char *id);
void vial_sandbox_set_state(VialSandbox *sandbox, VialState state, const char *reason);
/* Takes the instance, listens to it, and opens for business. */
void vial_sandbox_set_running(VialSandbox *sandbox, VialInstance *instance);
/* Out of the registry and out of the store. */
void vial_sandbox_forget(VialSandbox *sandbox);
void vial_sandbox_set_ttl(VialSandbox *sandbox, gint64 ttl_seconds);
VialSandbox *vial_sandbox_from_record(VialApp *app, const VialSandboxRecord *record);
void vial_sandbox_add_wake_waiter(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
void vial_sandbox_wake_waiters_done(VialSandbox *sandbox, const GError *error);
/* From HIBERNATED, with no transition under way. */
void vial_sandbox_begin_wake(VialSandbox *sandbox);
/* After a transition: what was asked for meanwhile (its end, its waking) is begun. */
void vial_sandbox_transition_done(VialSandbox *sandbox);
/* FALSE with CONFLICT while somebody uses it or something is being done to it. */
gboolean vial_sandbox_is_free(const VialSandbox *sandbox, const char *verb, GError **error);
/* Hears its instance again after somebody else did. */
void vial_sandbox_listen(VialSandbox *sandbox);
/* Its guest cannot be used any more: end it, and let its owner read why. */
void vial_sandbox_lost(VialSandbox *sandbox, const char *why);
/* What a manifest says about it. */
json_t *vial_sandbox_facts(const VialSandbox *sandbox, const char *kind);
char *vial_hibernation_dir(VialApp *app, const char *sandbox_id);
