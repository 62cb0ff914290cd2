/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gVisor engine: what runsc needs before it starts and what it leaves when it dies.
 *
 * Memory: runsc shows the guest the limit its cgroup has when it starts as MemTotal, so the group starts with exactly
 * memory_mb; once the sandbox runs the limit is raised (gvisor_limit) by the disk, which lives in the sandbox's memory, and
 * by what the Sentry itself needs. The agent's memory guard keeps programs below memory_mb; the cgroup is the backstop, and
 * when it strikes it takes the whole sandbox, which is reported as out_of_memory.
 */
#include <errno.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "engine/cgroup.h"
#include "engine/engine.h"
#include "engine/gvisor_spec.h"
#include "engine/host_process.h"
#include "util/fd.h"
#include "util/json.h"

#define SENTRY_OVERHEAD_MB 384
/* A guest thread costs the host about two (the Sentry's and systrap's stub); the rest are runsc's own. */
#define HOST_TASKS_PER_PROCESS 4
#define HOST_TASKS_OWN 512
#define MIB (1024 * 1024)

typedef struct {
	VialEngine base;
	VialRunsc runsc;
	char *shim;
	char *runsc_root;
	VialCgroups *cgroups;
} Gvisor;

static const char *gvisor_version(VialEngine *engine)
{
	return ((Gvisor *)engine)->runsc.version;
}

static const char *gvisor_warning(VialEngine *engine)
{
	return ((Gvisor *)engine)->runsc.warning;
}

/* Mounts of type erofs came with the releases that restore in the background. */
static const char *gvisor_refuses_layers(VialEngine *engine)
{
	return ((Gvisor *)engine)->runsc.is_current ? NULL : "custom templates need a newer gVisor; scripts/get-runsc fetches it";
}

static const char *gvisor_host_program(VialEngine *engine)
{
	return ((Gvisor *)engine)->shim;
}

static gboolean write_bundle(Gvisor *gvisor, const VialLaunch *launch, GError **error)
{
	g_autofree char *cgroup_path = vial_cgroups_path(gvisor->cgroups, launch->id);
	json_t *shim = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:b, s:[s, s]}", "id", launch->id, "runsc", gvisor->runsc.path, "runsc_root",
	                         gvisor->runsc_root, "bundle", launch->dir, "network", launch->netns ? "sandbox" : "none", "netns", launch->netns,
	                         "current", gvisor->runsc.is_current, "read_only", launch->rootfs, launch->runtime_dir);

	return vial_host_write_json(launch->dir, "config.json", vial_gvisor_spec(launch, cgroup_path), error) &&
	       vial_host_write_json(launch->dir, "shim.json", shim, error);
}

static gboolean gvisor_prepare(VialEngine *engine, const VialLaunch *launch, GError **error)
{
	Gvisor *gvisor = (Gvisor *)engine;
	VialCgroupLimits limits = {
		.cpu = launch->limits.cpu,
		.memory_bytes = launch->limits.memory_mb * MIB,
		.process_count = launch->limits.process_limit * HOST_TASKS_PER_PROCESS + HOST_TASKS_OWN,
	};

	return write_bundle(gvisor, launch, error) && vial_cgroup_create(gvisor->cgroups, launch->id, &limits, error);
}

static gboolean gvisor_limit(VialEngine *engine, const char *id, const VialLimits *limits, GError **error)
{
	VialCgroupLimits group = {
		.cpu = limits->cpu,
		.memory_bytes = (limits->memory_mb + limits->disk_mb + SENTRY_OVERHEAD_MB) * MIB,
		.process_count = limits->process_limit * HOST_TASKS_PER_PROCESS + HOST_TASKS_OWN,
	};

	return vial_cgroup_set_limits(((Gvisor *)engine)->cgroups, id, &group, error);
}

static gboolean gvisor_usage(VialEngine *engine, const char *id, VialInstanceUsage *out_usage)
{
	VialCgroupUsage usage;

	if (!vial_cgroup_usage(((Gvisor *)engine)->cgroups, id, &usage))
		return FALSE;
	*out_usage = (VialInstanceUsage){ .memory_bytes = usage.memory_bytes, .cpu_usec = usage.cpu_usec };
	return TRUE;
}

/* `runsc delete --force` waits two seconds for a sandbox that is already dead; its state is three files. */
static void remove_runsc_state(Gvisor *gvisor, const char *id)
{
	g_autofree char *lock = g_strdup_printf("%s/%s_sandbox:%s.lock", gvisor->runsc_root, id, id);
	g_autofree char *state = g_strdup_printf("%s/%s_sandbox:%s.state", gvisor->runsc_root, id, id);
	g_autofree char *socket = g_strdup_printf("%s/runsc-%s.sock", gvisor->runsc_root, id);

	g_unlink(lock);
	g_unlink(state);
	g_unlink(socket);
}

static char *gvisor_cleanup(VialEngine *engine, const char *id, const char *dir)
{
	Gvisor *gvisor = (Gvisor *)engine;
	VialCgroupUsage usage = { 0 };
	gboolean was_oom = vial_cgroup_usage(gvisor->cgroups, id, &usage) && usage.oom_kills > 0;
	g_autoptr(json_t) exited = vial_host_read_exit(dir);
	char *reason = vial_host_reason(dir);

	if (reason)
		; /* we ended it, and it is known why */
	else if (was_oom)
		reason = g_strdup("out_of_memory: the sandbox used all memory it was allowed and was ended");
	else if (!exited)
		reason = g_strdup("host_process_killed: the sandbox's host process was killed");
	else if (json_is_true(json_object_get(exited, "stopped")))
		reason = g_strdup("stopped");
	else if (json_is_true(json_object_get(exited, "broke_protocol")))
		reason = g_strdup(VIAL_REASON_VIOLATION "its agent sent bytes that are no frame");
	else
		reason = g_strdup("sandbox_killed: the sandbox process ended unexpectedly");
	vial_host_process_kill(dir);
	vial_cgroup_remove(gvisor->cgroups, id);
	remove_runsc_state(gvisor, id);
	return reason;
}

static GPtrArray *gvisor_leftovers(VialEngine *engine)
{
	return vial_cgroups_list(((Gvisor *)engine)->cgroups);
}

static void gvisor_free(VialEngine *engine)
{
	Gvisor *gvisor = (Gvisor *)engine;

	g_autofree char *run_dir = g_path_get_dirname(gvisor->runsc_root);

	/* Each goes only if no sandbox is left for the next viald. */
	vial_cgroups_remove_parent(gvisor->cgroups);
	if (g_rmdir(gvisor->runsc_root) == 0)
		g_rmdir(run_dir);
	vial_cgroups_free(gvisor->cgroups);
	vial_runsc_clear(&gvisor->runsc);
	g_free(gvisor->shim);
	g_free(gvisor->runsc_root);
	g_free(gvisor);
}

static const VialEngineOps gvisor_ops = {
	.name = "gvisor",
	.isolation = "user-space kernel (gVisor, systrap)",
	.version = gvisor_version,
	.warning = gvisor_warning,
	.host_program = gvisor_host_program,
	.refuses_layers = gvisor_refuses_layers,
	.prepare = gvisor_prepare,
	.limit = gvisor_limit,
	.usage = gvisor_usage,
	.cleanup = gvisor_cleanup,
	.leftovers = gvisor_leftovers,
	.free = gvisor_free,
};

VialEngine *vial_gvisor_new(VialRunsc *runsc, const char *program_dir, const char *run_dir, const char *tag, GError **error)
{
	g_autofree char *parent = g_strdup_printf("vial-%s", tag);
	VialCgroups *cgroups = vial_cgroups_new("/sys/fs/cgroup", parent, error);
	Gvisor *gvisor;

	if (!cgroups)
		return NULL;
	gvisor = g_new0(Gvisor, 1);
	gvisor->base.ops = &gvisor_ops;
	gvisor->base.carries_connections = runsc->is_current;
	gvisor->runsc = *runsc;
	*runsc = (VialRunsc){ 0 };
	gvisor->shim = g_build_filename(program_dir, "vial-shim", NULL);
	gvisor->runsc_root = g_build_filename(run_dir, "runsc", NULL);
	gvisor->cgroups = cgroups;
	if (g_mkdir_with_parents(gvisor->runsc_root, 0700) < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot make %s: %s", gvisor->runsc_root, g_strerror(errno));
		gvisor_free(&gvisor->base);
		return NULL;
	}
	return &gvisor->base;
}
