/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeping up after a sandbox: its processes, its cgroup, the engine's state and its folder. */
#include "service/boot.h"
#include "service/slots.h"
#include "util/tree.h"
#include "util/worker.h"

typedef struct {
	VialApp *app;
	char *host_id;
	char *dir;
	char *reason;
	VialSweptDone done;
	gpointer data;
} Sweep;

static void sweep_work(gpointer data)
{
	Sweep *sweep = data;

	sweep->reason = sweep->app->engine->ops->cleanup(sweep->app->engine, sweep->host_id, sweep->dir);
	vial_tree_remove(sweep->dir);
}

static void sweep_done(gpointer data)
{
	Sweep *sweep = data;

	vial_engine_forget(sweep->app->engine, sweep->host_id);
	vial_slots_release(sweep->app->slots, sweep->host_id);
	if (sweep->done)
		sweep->done(sweep->reason, sweep->data);
	g_free(sweep->host_id);
	g_free(sweep->dir);
	g_free(sweep->reason);
	g_free(sweep);
}

void vial_sweep(VialApp *app, const char *host_id, VialSweptDone done, gpointer data)
{
	Sweep *sweep = g_new0(Sweep, 1);

	sweep->app = app;
	sweep->host_id = g_strdup(host_id);
	sweep->dir = vial_host_dir(app, host_id);
	sweep->done = done;
	sweep->data = data;
	vial_worker_run_in(VIAL_LANE_WAIT, sweep_work, sweep_done, sweep);
}
