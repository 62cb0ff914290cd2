/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a restart: every recorded sandbox whose host process still answers is adopted as it is; the others are swept up
 * and marked failed with the reason. What the disk or the kernel still has but the store does not know is reaped.
 */
#include <string.h>

#include "service/boot.h"
#include "service/sandbox_private.h"
#include "util/id.h"
#include "util/log.h"
#include "util/time.h"

typedef struct {
	VialApp *app;
	guint pending;
	guint adopted;
	guint reaped;
	VialAdopted done;
	gpointer data;
} Adoption;

typedef struct {
	Adoption *adoption;
	VialSandbox *sandbox;
} Candidate;

static void one_less(Adoption *adoption)
{
	if (--adoption->pending > 0)
		return;
	adoption->done(adoption->adopted, adoption->reaped, adoption->data);
	g_free(adoption);
}

static void on_lost_swept(const char *reason, gpointer data)
{
	g_autofree Candidate *candidate = data;
	VialSandbox *sandbox = candidate->sandbox;

	vial_sandbox_set_state(sandbox, VIAL_STATE_FAILED, sandbox->reason ? sandbox->reason : reason);
	vial_sandbox_store(sandbox);
	candidate->adoption->reaped++;
	one_less(candidate->adoption);
}

static void on_adopted(VialInstance *instance, GError *error, gpointer data)
{
	Candidate *candidate = data;
	VialSandbox *sandbox = candidate->sandbox;
	const char *state = instance ? vial_instance_state(instance) : NULL;

	if (state && (strcmp(state, "running") == 0 || strcmp(state, "paused") == 0)) {
		gboolean is_paused = strcmp(state, "paused") == 0;

		vial_sandbox_set_running(sandbox, instance);
		if (is_paused)
			vial_sandbox_set_state(sandbox, VIAL_STATE_PAUSED, NULL);
		vial_log_info("sandbox", "adopted", "sandbox_id", sandbox->id);
		candidate->adoption->adopted++;
		one_less(candidate->adoption);
		g_free(candidate);
		return;
	}
	if (instance) {
		vial_instance_stop(instance);
		vial_instance_free(instance);
	}
	vial_sweep(sandbox->app, sandbox->id, sandbox->dir, TRUE, on_lost_swept, candidate);
}

static void adopt_one(Adoption *adoption, const VialSandboxRecord *record)
{
	VialSandbox *sandbox = vial_sandbox_from_record(adoption->app, record);
	Candidate *candidate;

	if (sandbox->state == VIAL_STATE_FAILED || sandbox->state == VIAL_STATE_HIBERNATED)
		return;
	candidate = g_new0(Candidate, 1);
	candidate->adoption = adoption;
	candidate->sandbox = sandbox;
	adoption->pending++;
	if (sandbox->state == VIAL_STATE_CREATING) {
		sandbox->reason = g_strdup("interrupted: viald stopped while the sandbox was being made");
		vial_sweep(sandbox->app, sandbox->id, sandbox->dir, TRUE, on_lost_swept, candidate);
		return;
	}
	sandbox->state = VIAL_STATE_RUNNING;
	vial_instance_adopt(adoption->app->engine, sandbox->id, sandbox->dir, on_adopted, candidate);
}

static void on_orphan_swept(const char *reason, gpointer data)
{
	Adoption *adoption = data;

	adoption->reaped++;
	one_less(adoption);
}

static void reap_unknown(Adoption *adoption, const char *id)
{
	g_autofree char *dir = NULL;

	if (g_hash_table_contains(adoption->app->sandboxes->by_id, id) || !vial_id_is_valid(id))
		return;
	dir = g_build_filename(adoption->app->config->data_dir, "sandboxes", id, NULL);
	vial_log_info("sandbox", "reaping what nobody owns", "sandbox_id", id);
	adoption->pending++;
	vial_sweep(adoption->app, id, dir, TRUE, on_orphan_swept, adoption);
}

static void reap_orphans(Adoption *adoption)
{
	g_autofree char *folder = g_build_filename(adoption->app->config->data_dir, "sandboxes", NULL);
	g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
	g_autoptr(GPtrArray) groups = adoption->app->engine->ops->leftovers(adoption->app->engine);
	g_autoptr(GHashTable) ids = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	GHashTableIter iter;
	const char *name;
	gpointer id;

	while (dir && (name = g_dir_read_name(dir)))
		g_hash_table_add(ids, g_strdup(name));
	for (guint i = 0; i < groups->len; i++)
		g_hash_table_add(ids, g_strdup(groups->pdata[i]));
	g_hash_table_iter_init(&iter, ids);
	while (g_hash_table_iter_next(&iter, &id, NULL))
		reap_unknown(adoption, id);
}

void vial_sandboxes_adopt(VialApp *app, VialAdopted done, gpointer data)
{
	Adoption *adoption = g_new0(Adoption, 1);
	g_autoptr(GError) error = NULL;
	g_autoptr(GPtrArray) records = vial_store_load_sandboxes(app->store, &error);

	adoption->app = app;
	adoption->done = done;
	adoption->data = data;
	adoption->pending = 1; /* ours, until all are counted */
	if (!records)
		vial_log_error("sandbox", "the recorded sandboxes cannot be read", "error", error->message);
	for (guint i = 0; records && i < records->len; i++)
		adopt_one(adoption, records->pdata[i]);
	reap_orphans(adoption);
	one_less(adoption);
}
