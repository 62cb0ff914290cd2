/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps of a build have made: a layer of files, or a snapshot with the memory of its base. */
#include <sys/statvfs.h>

#include "service/build_run_private.h"
#include "service/layer.h"
#include "service/template_private.h"
#include "util/fault.h"
#include "util/json.h"

/* The layer */

gint64 vial_build_free_bytes(VialApp *app)
{
	struct statvfs info;
	gint64 left = statvfs(app->config->data_dir, &info) == 0 ? (gint64)info.f_bavail * (gint64)info.f_frsize : G_MAXINT64;

	return vial_fault_measure("build.space", left);
}

static void on_layer(const char *hash, gint64 size_bytes, const GError *error, gpointer data)
{
	VialBuildRun *run = data;
	VialBuild *build = run->build;

	if (run->is_abandoned)
		return;
	run->is_taking = FALSE;
	if (error && error->code == VIAL_ERROR_QUOTA && run->layer_room_bytes < VIAL_LAYER_MAX_BYTES)
		return vial_build_run_fail(
			run, VIAL_ERROR_NO_SPACE,
			"what the steps have made could not be kept: the disk of this Vial is nearly full, with room for a layer of %" G_GINT64_FORMAT
			" MB: %s",
			run->layer_room_bytes >> 20, error->message);
	if (error)
		return vial_build_run_fail(run, VIAL_ERROR_UNAVAILABLE, "what the steps have made could not be kept: %s", error->message);
	if (run->error)
		return vial_build_run_leave(run);
	build->layer = g_strdup(hash);
	build->layer_bytes = size_bytes;
	vial_build_log_event(build->log, "the layer has %" G_GINT64_FORMAT " bytes", size_bytes);
	vial_build_store(build, NULL, NULL);
	vial_build_run_leave(run);
}

static void take_layer(VialBuildRun *run)
{
	VialBuild *build = run->build;
	g_autofree char *dir = vial_layers_dir(build->app);
	gint64 room = vial_build_free_bytes(build->app) - VIAL_BUILD_RESERVE_BYTES;

	vial_build_set_phase(build, "packing", build->step);
	vial_build_log_event(build->log, "packing what the steps have made");
	if (room <= 0)
		return vial_build_run_fail(run, VIAL_ERROR_NO_SPACE,
		                           "the disk of this Vial is nearly full: there is no room for what the steps have made");
	if (!run->sandbox->instance)
		return vial_build_run_fail(run, VIAL_ERROR_UNAVAILABLE, "the sandbox of the build has ended");
	run->is_taking = TRUE;
	run->layer_room_bytes = room;
	vial_layer_take(build->app, run->sandbox->instance, dir, MIN(room, VIAL_LAYER_MAX_BYTES), on_layer, run);
}

/* The snapshot, of a base with a memory */

static void on_snapshot(VialSnapshot *snapshot, const GError *error, gpointer data)
{
	VialBuildRun *run = data;

	if (run->is_abandoned)
		return;
	if (error)
		return vial_build_run_fail(run, (VialErrorCode)error->code, "what the steps have made could not be kept: %s", error->message);
	run->snapshot_id = g_strdup(snapshot->id);
	if (run->error)
		return vial_build_run_leave(run);
	g_clear_handle_id(&run->timer, g_source_remove); /* from here on it is not late any more */
	vial_fault("build.snapshot");
	/* Its sandbox stays until the template is there: after a crash in between, that is how the snapshot is known to be nobody's (builds.c). */
	vial_build_run_name(run);
}

/* What a sandbox of it finds: the ENV and the WORKDIR of the steps are from now on those of this one. */
static void take_snapshot(VialBuildRun *run)
{
	VialBuild *build = run->build;
	VialSandbox *sandbox = run->sandbox;

	if (vial_build_free_bytes(build->app) <= VIAL_BUILD_RESERVE_BYTES)
		return vial_build_run_fail(run, VIAL_ERROR_NO_SPACE,
		                           "the disk of this Vial is nearly full: there is no room for what the steps have made");
	json_object_update(sandbox->env, run->env);
	g_free(sandbox->workdir);
	sandbox->workdir = g_strdup(run->workdir);
	vial_build_set_phase(build, "packing", build->step);
	vial_build_log_event(build->log, "taking a snapshot of the sandbox as the steps have left it");
	vial_snapshot_take(sandbox, build->principal, NULL, on_snapshot, run);
}

static void on_running(const char *problem, gpointer data)
{
	VialBuildRun *run = data;

	g_clear_pointer(&run->start, vial_start_free);
	if (problem)
		return vial_build_run_fail(run, VIAL_ERROR_UNAVAILABLE, "%s", problem);
	take_snapshot(run);
}

static VialChannel *channel_of(gpointer data)
{
	const VialBuildRun *run = data;

	return vial_sandbox_channel(run->sandbox);
}

static const char *said(const VialBuildRun *run, const char *name)
{
	const char *text = json_string_value(json_object_get(run->build->source, name));

	return text && *text ? text : NULL;
}

/* Only what this build says: what its base has started runs in the memory already. */
static void start_up(VialBuildRun *run)
{
	VialStartSpec spec = {
		.command = said(run, "start_command"),
		.ready = said(run, "ready_command"),
		.user = said(run, "start_user"),
		.workdir = run->workdir,
		.env = run->env,
		.limit_seconds = run->build->timeout_seconds,
		.log = run->build->log,
		.channel = channel_of,
		.done = on_running,
		.data = run,
	};

	if (spec.command || spec.ready)
		run->start = vial_start_begin(&spec);
	else
		take_snapshot(run);
}

static void on_warm(const char *problem, gpointer data)
{
	VialBuildRun *run = data;

	if (run->is_abandoned)
		return;
	run->is_taking = FALSE;
	if (run->error)
		return vial_build_run_leave(run);
	if (problem)
		return vial_build_run_fail(run, VIAL_ERROR_UNAVAILABLE, "%s", problem);
	start_up(run);
}

static void warm_up(VialBuildRun *run)
{
	const char *code = json_string_value(json_object_get(run->build->source, "warm"));

	if (run->build->is_cached)
		return take_snapshot(run);
	vial_build_set_phase(run->build, "baking", run->build->step);
	if (!code)
		return start_up(run);
	vial_build_log_event(run->build->log, "running the warm code");
	run->is_taking = TRUE;
	vial_warmup(vial_sandbox_channel(run->sandbox), code, on_warm, run);
}

void vial_build_run_keep(VialBuildRun *run)
{
	if (run->origin_id)
		warm_up(run);
	else if (run->sandbox)
		take_layer(run);
	else
		vial_build_run_bake(run);
}
