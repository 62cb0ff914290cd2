/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a restart: every recorded sandbox whose host process still answers is adopted as it is; the others are swept up
 * and marked failed with the reason. What the disk or the kernel still has but the store does not know is reaped.
 *
 * Unless a record is damaged. Then nobody knows which of the guests, network slots and images without an owner are its own, so
 * all of them are left alone until it is repaired or deleted and viald starts again.
 */
#include <string.h>

#include "service/boot.h"
#include "service/freeze.h"
#include "service/meter.h"
#include "service/sandbox_private.h"
#include "service/slots.h"
#include "service/undo.h"
#include "util/id.h"
#include "util/log.h"
#include "util/tree.h"

typedef struct {
	VialApp *app;
	guint pending;
	guint adopted;
	guint reaped;
	guint damaged;
	VialAdopted done;
	gpointer data;
} Adoption;

typedef struct {
	Adoption *adoption;
	VialSandbox *sandbox;
	gboolean may_sleep; /* it was on the way into or out of hibernation */
} Candidate;

static void candidate_settled(Adoption *adoption)
{
	if (--adoption->pending > 0)
		return;
	adoption->done(adoption->adopted, adoption->reaped, adoption->data);
	g_free(adoption);
}

/* A guest that is gone but has a sealed image of itself is asleep, not dead. */
static gboolean has_image(VialSandbox *sandbox)
{
	g_autofree char *image = vial_hibernation_dir(sandbox->app, sandbox->id);

	return g_file_test(image, G_FILE_TEST_IS_DIR);
}

static void on_lost_swept(const char *reason, gpointer data)
{
	g_autofree Candidate *candidate = data;
	VialSandbox *sandbox = candidate->sandbox;

	if (candidate->may_sleep && has_image(sandbox)) {
		vial_meter_lost(sandbox);
		sandbox->state = VIAL_STATE_HIBERNATED;
		vial_sandbox_store(sandbox);
		candidate_settled(candidate->adoption);
		return;
	}
	vial_meter_lost(sandbox);
	vial_sandbox_set_state(sandbox, VIAL_STATE_FAILED, sandbox->reason ? sandbox->reason : reason);
	vial_sandbox_record(sandbox, "sandbox.fail", sandbox->reason);
	vial_sandbox_store(sandbox);
	candidate->adoption->reaped++;
	candidate_settled(candidate->adoption);
}

static void lose(Candidate *candidate)
{
	vial_sweep(candidate->sandbox->app, candidate->sandbox->host_id, on_lost_swept, candidate);
}

/* The last viald may have died while the guest was frozen: a HELLO of its own generation lets it go on, and proves it well. */
static void on_thawed(const GError *error, gpointer data)
{
	Candidate *candidate = data;
	VialSandbox *sandbox = candidate->sandbox;
	g_autofree char *image = vial_hibernation_dir(sandbox->app, sandbox->id);

	if (error) {
		candidate->adoption->reaped++; /* freeze.c has ended it */
	} else {
		vial_log_info("sandbox", "adopted", "sandbox_id", sandbox->id);
		candidate->adoption->adopted++;
		vial_tree_remove_later(image);
		vial_sandbox_store(sandbox);
	}
	candidate_settled(candidate->adoption);
	g_free(candidate);
}

static void on_adopted(VialInstance *instance, GError *error, gpointer data)
{
	Candidate *candidate = data;
	VialSandbox *sandbox = candidate->sandbox;
	const char *state = instance ? vial_instance_state(instance) : NULL;
	const VialEngineOps *ops = sandbox->app->engine->ops;

	if (instance && ops->adopted) {
		g_autofree char *dir = vial_host_dir(sandbox->app, sandbox->host_id);

		ops->adopted(sandbox->app->engine, sandbox->host_id, dir);
	}
	if (state && strcmp(state, "running") == 0) {
		vial_sandbox_set_running(sandbox, instance);
		vial_meter_adopted(sandbox);
		return vial_thaw(sandbox, on_thawed, candidate);
	}
	if (state && strcmp(state, "paused") == 0) {
		vial_sandbox_set_running(sandbox, instance);
		vial_meter_adopted(sandbox);
		vial_sandbox_set_state(sandbox, VIAL_STATE_PAUSED, NULL);
		return on_thawed(NULL, candidate);
	}
	vial_log_warning("sandbox", "cannot be adopted", "sandbox_id", sandbox->id, "host_id", sandbox->host_id, "detail",
	                 instance ? state : error->message);
	if (instance) {
		vial_instance_stop(instance);
		vial_instance_free(instance);
	}
	lose(candidate);
}

static VialSandbox *read_record(Adoption *adoption, const VialSandboxRecord *record)
{
	VialSandbox *sandbox;

	if (!vial_id_is_valid(record->id)) {
		adoption->damaged++;
		vial_log_error("sandbox", "a record has no id; it is left as it is");
		return NULL;
	}
	sandbox = vial_sandbox_from_record(adoption->app, record);
	if (sandbox->is_damaged) {
		adoption->damaged++;
		vial_log_error("sandbox", "a record is damaged; it is left as it is", "sandbox_id", sandbox->id, "error", sandbox->reason);
	}
	return sandbox;
}

static void adopt_one(Adoption *adoption, const VialSandboxRecord *record)
{
	VialSandbox *sandbox = read_record(adoption, record);
	g_autofree char *dir = NULL;
	Candidate *candidate;

	if (!sandbox || sandbox->state == VIAL_STATE_FAILED || sandbox->state == VIAL_STATE_HIBERNATED)
		return;
	candidate = g_new0(Candidate, 1);
	candidate->adoption = adoption;
	candidate->sandbox = sandbox;
	adoption->pending++;
	if (sandbox->state == VIAL_STATE_CREATING) {
		sandbox->reason = g_strdup("interrupted: viald stopped while the sandbox was being made");
		return lose(candidate);
	}
	/* Its guest may run, but nobody has used it (wake.c), and its record does not know its network yet: it sleeps on. */
	if (sandbox->state == VIAL_STATE_WAKING) {
		candidate->may_sleep = TRUE;
		sandbox->state = VIAL_STATE_RUNNING;
		return lose(candidate);
	}
	/* Without its network it cannot be what its owner asked for: then it is lost. */
	if (sandbox->slot_name && !vial_slots_adopt(adoption->app->slots, sandbox->host_id, sandbox->slot_name, sandbox->network))
		sandbox->reason = g_strdup("network_lost: its network namespace is gone");
	candidate->may_sleep = sandbox->state == VIAL_STATE_HIBERNATING;
	if (candidate->may_sleep)
		vial_slots_reopen(adoption->app->slots, sandbox->host_id);
	sandbox->state = VIAL_STATE_RUNNING;
	if (sandbox->reason)
		return lose(candidate);
	dir = vial_host_dir(adoption->app, sandbox->host_id);
	vial_instance_adopt(adoption->app->engine, sandbox->host_id, dir, on_adopted, candidate);
}

static void on_orphan_swept(const char *reason, gpointer data)
{
	Adoption *adoption = data;

	adoption->reaped++;
	candidate_settled(adoption);
}

static void reap_unknown(Adoption *adoption, GHashTable *owned, const char *id)
{
	if (g_hash_table_contains(owned, id) || !vial_id_is_valid(id))
		return;
	vial_log_info("sandbox", "reaping what nobody owns", "sandbox_id", id);
	adoption->pending++;
	vial_sweep(adoption->app, id, on_orphan_swept, adoption);
}

/* What sleeps or has failed is without a guest. The one its record still names was being swept up when the last viald died. */
static gboolean has_host(const VialSandbox *sandbox)
{
	return sandbox->state != VIAL_STATE_HIBERNATED && sandbox->state != VIAL_STATE_FAILED;
}

static void reap_orphans(Adoption *adoption)
{
	g_autofree char *folder = g_build_filename(adoption->app->config->data_dir, "sandboxes", NULL);
	g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
	g_autoptr(GPtrArray) groups = adoption->app->engine->ops->leftovers(adoption->app->engine);
	g_autoptr(GHashTable) ids = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	g_autoptr(GHashTable) owned = g_hash_table_new(g_str_hash, g_str_equal);
	GHashTableIter iter;
	const char *name;
	gpointer id, sandbox;

	g_hash_table_iter_init(&iter, adoption->app->sandboxes->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &sandbox))
		if (has_host(sandbox))
			g_hash_table_add(owned, ((VialSandbox *)sandbox)->host_id);
	while (dir && (name = g_dir_read_name(dir)))
		g_hash_table_add(ids, g_strdup(name));
	for (guint i = 0; i < groups->len; i++)
		g_hash_table_add(ids, g_strdup(groups->pdata[i]));
	g_hash_table_iter_init(&iter, ids);
	while (g_hash_table_iter_next(&iter, &id, NULL))
		reap_unknown(adoption, owned, id);
}

/* Half-written hibernations, images nobody's record knows, and what forks left: all of it is worthless now. */
static void remove_strays(VialApp *app)
{
	g_autofree char *hibernated = g_build_filename(app->config->data_dir, "hibernated", NULL);
	g_autofree char *forks = g_build_filename(app->config->data_dir, "forks", NULL);
	g_autoptr(GDir) dir = g_dir_open(hibernated, 0, NULL);
	const char *name;

	vial_tree_remove(forks);
	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(hibernated, name, NULL);

		if (!g_hash_table_contains(app->sandboxes->by_id, name))
			vial_tree_remove(path);
	}
}

void vial_sandboxes_adopt(VialApp *app, const GPtrArray *records, VialAdopted done, gpointer data)
{
	Adoption *adoption = g_new0(Adoption, 1);

	adoption->app = app;
	adoption->done = done;
	adoption->data = data;
	adoption->pending = 1; /* ours, until all are counted */
	for (guint i = 0; i < records->len; i++)
		adopt_one(adoption, records->pdata[i]);
	vial_slots_start(app->slots, adoption->damaged == 0);
	if (adoption->damaged == 0) {
		reap_orphans(adoption);
		remove_strays(app);
		vial_undo_drop_strays(app);
	}
	candidate_settled(adoption);
}
