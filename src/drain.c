/* SPDX-License-Identifier: Apache-2.0 */
#include "drain.h"

#include "http/server.h"
#include "operations/watchers.h"
#include "service/builds.h"
#include "service/pool.h"
#include "service/sandbox.h"
#include "service/template.h"
#include "util/fault.h"
#include "util/log.h"
#include "util/time.h"

#define REQUESTS_TIMEOUT_MS 10000
#define LOOK_MS 50
/* Without any progress. The longest thing that is waited for is a checkpoint of a large memory, which the engine gives two minutes. */
#define STALL_TIMEOUT_MS 150000

typedef struct {
	VialApp *app;
	VialServer *server;
	gboolean ends_sandboxes;
	const char *step; /* for the log */
	gint64 requests_deadline_ms;
	guint ending; /* sandboxes, and one for ourselves while they are counted */
	guint look;
	guint stall;
	VialDrained done;
	gpointer data;
} Drain;

static void drain_end(Drain *drain, gboolean is_complete)
{
	VialDrained done = drain->done;
	gpointer data = drain->data;

	g_clear_handle_id(&drain->look, g_source_remove);
	g_clear_handle_id(&drain->stall, g_source_remove);
	/* One that hung is still pointed to by what it waits for. */
	if (is_complete)
		g_free(drain);
	done(is_complete, data);
}

static gboolean on_stall(gpointer data)
{
	Drain *drain = data;
	g_autofree char *left = g_strdup_printf("%u", drain->ending);

	drain->stall = 0;
	vial_log_error("drain", "stopping hangs; what is left is for the next viald", "step", drain->step, "sandboxes", left);
	drain_end(drain, FALSE);
	return G_SOURCE_REMOVE;
}

static void progress(Drain *drain, const char *step)
{
	drain->step = step;
	g_clear_handle_id(&drain->stall, g_source_remove);
	drain->stall = vial_time_add_deadline(STALL_TIMEOUT_MS, on_stall, drain);
}

static void on_one_ended(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Drain *drain = data;

	progress(drain, "ending the sandboxes");
	if (--drain->ending == 0)
		drain_end(drain, TRUE);
}

static void end_sandboxes(Drain *drain)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(drain->app->sandboxes);

	drain->ending = 1;
	for (guint i = 0; i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];

		/* What sleeps takes nothing but disk, and what was to persist is put to sleep; the rest ends. */
		if (vial_sandbox_state(sandbox) == VIAL_STATE_HIBERNATED || vial_sandbox_is_damaged(sandbox))
			continue;
		drain->ending++;
		if (vial_sandbox_is_persistent(sandbox))
			vial_sandbox_hibernate(sandbox, on_one_ended, drain);
		else
			vial_sandbox_delete(sandbox, on_one_ended, drain);
	}
	on_one_ended(NULL, NULL, drain);
}

static void on_baking_ended(gpointer data)
{
	Drain *drain = data;

	if (drain->ends_sandboxes)
		end_sandboxes(drain);
	else
		drain_end(drain, TRUE);
}

static void on_pool_drained(gpointer data)
{
	Drain *drain = data;

	progress(drain, "giving up what is being baked");
	vial_templates_end_baking(drain->app->templates, on_baking_ended, drain);
}

static gboolean on_look(gpointer data)
{
	Drain *drain = data;
	VialServerStats stats = { 0 };

	if (drain->server)
		vial_server_stats(drain->server, &stats);
	if (stats.requests > 0 && vial_time_monotonic_ms() < drain->requests_deadline_ms)
		return G_SOURCE_CONTINUE;
	drain->look = 0;
	vial_watchers_end(drain->app->watchers);
	progress(drain, "giving back the pool");
	if (drain->app->pool)
		vial_pool_drain(drain->app->pool, on_pool_drained, drain);
	else
		on_pool_drained(drain);
	return G_SOURCE_REMOVE;
}

void vial_drain(VialApp *app, VialServer *server, gboolean ends_sandboxes, VialDrained done, gpointer data)
{
	Drain *drain = g_new0(Drain, 1);

	drain->app = app;
	drain->server = server;
	drain->ends_sandboxes = ends_sandboxes;
	drain->done = done;
	drain->data = data;
	app->is_draining = TRUE;
	vial_builds_stop(app);
	drain->requests_deadline_ms = vial_time_monotonic_ms() + vial_fault_measure("drain.requests_ms", REQUESTS_TIMEOUT_MS);
	if (server)
		vial_server_quiesce(server);
	progress(drain, "waiting for requests");
	drain->look = g_timeout_add(LOOK_MS, on_look, drain);
}
