/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking: boot from the hibernated image -> record RUNNING -> remove the image. Until the record says RUNNING for good the image is what the sandbox
 * is; a wake that fails leaves it HIBERNATED.
 */
#include "service/boot.h"
#include "service/pool.h"
#include "service/sandbox_private.h"
#include "service/slots.h"
#include "util/fault.h"
#include "util/log.h"
#include "util/time.h"
#include "util/tree.h"

typedef struct {
	VialSandbox *sandbox;
	char *image;
	char *generation;
	gint64 started_ms;
	VialWakeDone done;
	gpointer data;
} Wake;

static void finish(Wake *wake, const GError *error)
{
	wake->done(error, wake->data);
	g_free(wake->image);
	g_free(wake->generation);
	g_free(wake);
}

/* Only now it may be used: as long as the record says WAKING, whoever takes over goes back to the image (adopt.c). */
static void on_stored(const GError *error, gpointer data)
{
	Wake *wake = data;

	/* Without a record that it runs, a restart needs the image. */
	if (!error)
		vial_tree_remove_later(wake->image);
	finish(wake, NULL);
}

static void on_booted(VialInstance *instance, const GError *error, gpointer data)
{
	Wake *wake = data;
	VialSandbox *sandbox = wake->sandbox;

	vial_fault("wake.booted");
	if (error) {
		vial_log_warning("sandbox", "could not be woken", "sandbox_id", sandbox->id, "error", error->message);
		vial_sandbox_set_state(sandbox, VIAL_STATE_HIBERNATED, NULL);
		vial_sandbox_store(sandbox);
		return finish(wake, error);
	}
	g_free(sandbox->generation);
	sandbox->generation = g_steal_pointer(&wake->generation);
	sandbox->boot_ms = vial_time_monotonic_ms() - wake->started_ms;
	vial_sandbox_set_running(sandbox, instance);
	vial_sandbox_store_then(sandbox, on_stored, wake);
}

void vial_wake(VialSandbox *sandbox, VialWakeDone done, gpointer data)
{
	Wake *wake = g_new0(Wake, 1);
	VialBootSpec spec = vial_sandbox_boot_spec(sandbox);

	wake->sandbox = sandbox;
	wake->image = vial_hibernation_dir(sandbox->app, sandbox->id);
	wake->generation = vial_generation_new();
	wake->started_ms = vial_time_monotonic_ms();
	wake->done = done;
	wake->data = data;
	spec.image = wake->image;
	spec.generation = wake->generation;
	spec.is_resumed = vial_slots_has_parked(sandbox->app->slots, sandbox->id);
	vial_sandbox_choose_host(sandbox, &spec);
	vial_sandbox_set_state(sandbox, VIAL_STATE_WAKING, NULL);
	vial_sandbox_store(sandbox);
	vial_boot(sandbox->app, &spec, on_booted, wake);
}
