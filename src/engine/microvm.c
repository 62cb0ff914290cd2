/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The microVM engine: what vial-vmm needs before it starts and what is left when it dies. The monitor itself is vmm/, docs/microvm.md.
 *
 * Memory: the machine's size is the limit; the cgroup is the backstop above it, with room for the monitor and the page tables. What a
 * snapshot's writer and the disk's private layer cache is the cgroup's too, but the kernel takes that back when it wants.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "engine/host_process.h"
#include "engine/microvm_private.h"
#include "util/fd.h"
#include "util/json.h"

#define MONITOR_MB 96
/* Threads: two of the monitor, the vCPUs, and for a moment all of that for every child of a fork. */
#define HOST_TASKS 512
#define MIN_SHOWN_VCPUS 2
#define MIB (1024 * 1024)
#define BUILD_DIGITS 12

typedef struct {
	VialEngine base;
	char *program;
	char *disk_builder;
	char *images_dir;
	char *kernel;
	int kernel_fd; /* as long as it is open nobody clears the kernel away, even if it is no longer the newest */
	char *version;
	VialCgroups *cgroups;
} Microvm;

static const char *microvm_version(VialEngine *engine)
{
	return ((Microvm *)engine)->version;
}

static const char *microvm_host_program(VialEngine *engine)
{
	return ((Microvm *)engine)->program;
}

static VialCgroupLimits group_limits(const VialLimits *limits)
{
	VialMachineSize size = vial_microvm_size(limits);

	return (VialCgroupLimits){
		.cpu = limits->cpu,
		.memory_bytes = ((gint64)size.memory_mb + MONITOR_MB + size.memory_mb / 64) * MIB,
		.process_count = HOST_TASKS,
	};
}

static gboolean microvm_prepare(VialEngine *engine, const VialLaunch *launch, GError **error)
{
	Microvm *microvm = (Microvm *)engine;
	VialCgroupLimits limits = group_limits(&launch->limits);
	g_autofree char *root = vial_microvm_disk(microvm->disk_builder, launch->rootfs, error);
	g_autofree char *runtime = root ? vial_microvm_disk(microvm->disk_builder, launch->runtime_dir, error) : NULL;
	g_autofree char *upper = NULL;

	if (!runtime)
		return FALSE;
	if (launch->is_layered && !(upper = vial_microvm_empty_disk(microvm->disk_builder, microvm->images_dir, launch->limits.disk_mb, error)))
		return FALSE;
	return vial_host_write_json(launch->dir, VIAL_VMM_CONFIG, vial_microvm_config(launch, microvm->kernel, root, runtime, upper), error) &&
	       vial_cgroup_create(microvm->cgroups, launch->id, &limits, error);
}

/* The number stays the process's as long as that lives, which the descriptor tells: what was done to the number was done to it. */
static gboolean microvm_joined(VialEngine *engine, const char *id, const char *dir, pid_t pid, const char *parent_id, GError **error)
{
	VialCgroups *cgroups = ((Microvm *)engine)->cgroups;
	vial_autofd int process = vial_host_process_open(pid);

	if (process < 0 || (parent_id && !vial_cgroup_has(cgroups, parent_id, pid)))
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "the process that answers for the sandbox is not its own");
	return vial_cgroup_add(cgroups, id, pid, error) && vial_host_process_record(dir, pid, error) &&
	       (vial_host_process_is_alive(process) || vial_fail(error, VIAL_ERROR_UNAVAILABLE, "the sandbox's host process has ended already"));
}

/*
 * A fork starts in its parent's cgroup, until viald has heard its pid and moved it: had the last viald died in between, it would run on there with
 * nobody to end it. The monitor dropped what it had not yet read of that viald when it took our connection, so none comes after this.
 */
static void microvm_adopted(VialEngine *engine, const char *id, const char *dir)
{
	pid_t pid = vial_host_process_find(dir);

	if (pid > 0)
		vial_cgroup_kill_others(((Microvm *)engine)->cgroups, id, pid);
}

/* Memory is built in; processors can be held back by the cgroup but not added. */
static gboolean microvm_fits(const VialLimits *saved, const VialLimits *wanted)
{
	return saved->memory_mb == wanted->memory_mb && saved->disk_mb == wanted->disk_mb &&
	       vial_microvm_size(wanted).vcpus <= vial_microvm_size(saved).vcpus;
}

/* Less than the template's is a matter of the cgroup alone, down to two processors, which is what programs take for granted. */
static VialLimits microvm_edition(const VialLimits *own, const VialLimits *wanted)
{
	VialLimits edition = *own;
	guint has = vial_microvm_size(own).vcpus, vcpus = MAX(vial_microvm_size(wanted).vcpus, MIN(has, MIN_SHOWN_VCPUS));

	edition.memory_mb = wanted->memory_mb;
	if (vcpus != has)
		edition.cpu = vcpus;
	return edition;
}

static gboolean microvm_limit(VialEngine *engine, const char *id, const VialLimits *limits, GError **error)
{
	VialCgroupLimits group = group_limits(limits);

	return vial_cgroup_set_limits(((Microvm *)engine)->cgroups, id, &group, error);
}

static gboolean microvm_usage(VialEngine *engine, const char *id, VialInstanceUsage *out_usage)
{
	VialCgroupUsage usage;

	if (!vial_cgroup_usage(((Microvm *)engine)->cgroups, id, &usage))
		return FALSE;
	*out_usage = (VialInstanceUsage){ .memory_bytes = usage.memory_bytes, .cpu_usec = usage.cpu_usec };
	return TRUE;
}

/* The monitor's word for it (docs/microvm.md) as our sentence. */
static char *describe_end(const char *dir)
{
	static const struct {
		const char *word, *sentence;
	} ends[] = {
		{ "stopped", "stopped" },
		{ "poweroff", "sandbox_killed: the sandbox switched itself off" },
		{ "reboot", "sandbox_killed: the sandbox's kernel crashed or was rebooted" },
		{ "guest_crash", "sandbox_killed: the sandbox's virtual machine crashed" },
		{ "kvm_error", "sandbox_killed: the host's KVM refused to go on with the virtual machine" },
		{ "guest_protocol", VIAL_REASON_VIOLATION "its agent sent bytes that are no frame" },
	};
	g_autoptr(json_t) exited = vial_host_read_exit(dir);
	const char *word = json_string_value(json_object_get(exited, "reason"));

	for (gsize i = 0; word && i < G_N_ELEMENTS(ends); i++)
		if (strcmp(ends[i].word, word) == 0)
			return g_strdup(ends[i].sentence);
	return g_strdup(exited ? "sandbox_killed: the sandbox process ended unexpectedly"
	                       : "host_process_killed: the sandbox's host process was killed");
}

static char *microvm_cleanup(VialEngine *engine, const char *id, const char *dir)
{
	Microvm *microvm = (Microvm *)engine;
	VialCgroupUsage usage = { 0 };
	gboolean was_oom = vial_cgroup_usage(microvm->cgroups, id, &usage) && usage.oom_kills > 0;
	char *reason = vial_host_reason(dir);

	if (!reason)
		reason = was_oom ? g_strdup("out_of_memory: the sandbox used all memory it was allowed and was ended") : describe_end(dir);
	vial_host_process_kill(dir);
	vial_cgroup_remove(microvm->cgroups, id);
	return reason;
}

static GPtrArray *microvm_leftovers(VialEngine *engine)
{
	return vial_cgroups_list(((Microvm *)engine)->cgroups);
}

static void microvm_free(VialEngine *engine)
{
	Microvm *microvm = (Microvm *)engine;

	if (microvm->cgroups)
		vial_cgroups_remove_parent(microvm->cgroups);
	vial_cgroups_free(microvm->cgroups);
	vial_fd_clear(&microvm->kernel_fd);
	g_free(microvm->program);
	g_free(microvm->disk_builder);
	g_free(microvm->images_dir);
	g_free(microvm->kernel);
	g_free(microvm->version);
	g_free(microvm);
}

static const VialEngineOps microvm_ops = {
	.name = "microvm",
	.isolation = "hardware virtualisation (KVM), own Linux kernel",
	.version = microvm_version,
	.host_program = microvm_host_program,
	.records_hot = TRUE,
	.uses_tap = TRUE,
	.prepare = microvm_prepare,
	.joined = microvm_joined,
	.adopted = microvm_adopted,
	.complete = vial_microvm_complete,
	.add_child = vial_microvm_add_child,
	.fits = microvm_fits,
	.edition = microvm_edition,
	.limit = microvm_limit,
	.usage = microvm_usage,
	.cleanup = microvm_cleanup,
	.leftovers = microvm_leftovers,
	.free = microvm_free,
};

/* What the monitor compares before it restores, and the kernel that is in the snapshot: a mismatch is known before it is tried. */
static char *make_version(json_t *report, const char *kernel)
{
	const char *build = json_string_value(json_object_get(report, "build"));
	const char *host = json_string_value(json_object_get(report, "host"));
	g_autofree char *name = g_path_get_basename(kernel);

	return g_strdup_printf("%.*s on %s with %s", BUILD_DIGITS, build ? build : VIAL_VERSION, host ? host : "an unknown host", name);
}

VialEngine *vial_microvm_new(const char *program_dir, const char *images_dir, json_t *report, const char *tag, GError **error)
{
	g_autofree char *parent = g_strdup_printf("vial-%s", tag);
	Microvm *microvm = g_new0(Microvm, 1);

	microvm->base.ops = &microvm_ops;
	microvm->program = g_build_filename(program_dir, "vial-vmm", NULL);
	microvm->images_dir = g_strdup(images_dir);
	microvm->kernel = vial_microvm_kernel(images_dir, error);
	microvm->kernel_fd = microvm->kernel ? open(microvm->kernel, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (microvm->kernel && (microvm->disk_builder = vial_microvm_disk_builder(program_dir, error)) &&
	    (microvm->cgroups = vial_cgroups_new("/sys/fs/cgroup", parent, error))) {
		microvm->version = make_version(report, microvm->kernel);
		return &microvm->base;
	}
	microvm_free(&microvm->base);
	return NULL;
}
