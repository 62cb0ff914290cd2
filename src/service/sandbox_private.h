/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make up the sandbox service. */
#pragma once

#include "service/sandbox.h"

struct VialSandboxes {
	VialApp *app;
	GHashTable *by_id; /* holds a reference each */
	guint tick;
};

/* An object in the registry, in state CREATING, with its folder named but not made. */
VialSandbox *vial_sandbox_new(VialApp *app, const char *id);
void vial_sandbox_set_state(VialSandbox *sandbox, VialState state, const char *reason);
/* Takes the instance, listens to it, and opens for business. */
void vial_sandbox_set_running(VialSandbox *sandbox, VialInstance *instance);
/* Out of the registry and out of the store. */
void vial_sandbox_forget(VialSandbox *sandbox);
void vial_sandbox_set_ttl(VialSandbox *sandbox, gint64 ttl_seconds);
VialSandbox *vial_sandbox_from_record(VialApp *app, const VialSandboxRecord *record);
void vial_sandbox_wake_waiters_done(VialSandbox *sandbox, const GError *error);
