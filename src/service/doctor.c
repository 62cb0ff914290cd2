/* SPDX-License-Identifier: Apache-2.0 */
#include "service/doctor.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/cgroup.h"
#include "service/engine_select.h"
#include "util/json.h"
#include "util/memory.h"

#define LOW_DISK_BYTES (2LL * 1024 * 1024 * 1024)
/* Below this the pool keeps no blanks (pool.c). */
#define LOW_MEMORY_PERCENT 15

static void add_check(json_t *checks, const char *name, gboolean is_ok, const char *detail, const char *advice)
{
	json_array_append_new(checks,
	                      json_pack("{s:s, s:b, s:s, s:s*}", "name", name, "ok", is_ok, "detail", detail, "advice", is_ok ? NULL : advice));
}

/* The last check only says what could be better: its failure is none of the host's. */
static void mark_optional(json_t *checks)
{
	json_object_set_new(json_array_get(checks, json_array_size(checks) - 1), "needed", json_false());
}

static void check_runsc(json_t *checks, const VialConfig *config, gboolean is_needed)
{
	g_autoptr(GError) error = NULL;
	g_auto(VialRunsc) runsc = { 0 };
	gboolean is_found = vial_runsc_find(config->runsc, config->data_dir, &runsc, &error);
	g_autofree char *detail = runsc.warning ? g_strdup(runsc.warning)
	                          : is_found    ? g_strdup_printf("runsc %s (%s), platform systrap", runsc.version, runsc.path)
	                                        : g_strdup(error->message);

	add_check(checks, "gvisor", is_found && !runsc.warning, detail, "run `make up`, which brings a current one; docs/gvisor.md");
	if (is_found || !is_needed)
		mark_optional(checks);
}

static void check_cgroups(json_t *checks)
{
	g_autoptr(GError) error = NULL;
	VialCgroups *cgroups = vial_cgroups_new("/sys/fs/cgroup", "vial-doctor", &error);
	g_autofree char *detail = cgroups ? g_strdup_printf("version %d", vial_cgroups_version(cgroups)) : g_strdup(error->message);

	add_check(checks, "cgroups", cgroups != NULL, detail, "mount the cpu, memory and pids controllers, or cgroup2");
	if (cgroups)
		vial_cgroups_remove_parent(cgroups);
	vial_cgroups_free(cgroups);
}

static void check_disk(json_t *checks, const VialConfig *config)
{
	g_autofree char *detail = NULL;
	struct statvfs info;
	gint64 available;

	if (statvfs(config->data_dir, &info) < 0) {
		detail = g_strdup_printf("%s: %s", config->data_dir, g_strerror(errno));
		add_check(checks, "disk", FALSE, detail, "make the data directory, or name another with data_dir");
		return;
	}
	available = (gint64)info.f_bavail * (gint64)info.f_frsize;
	detail = g_strdup_printf("%.1f GiB free in %s", (double)available / (1 << 30), config->data_dir);
	add_check(checks, "disk", available >= LOW_DISK_BYTES, detail, "free some space: images and snapshots need it");
}

static void check_memory(json_t *checks)
{
	g_autofree char *detail = NULL;
	VialMemory memory;

	if (!vial_memory_read("", &memory))
		return;
	detail = g_strdup_printf("%.1f of %.1f GiB available%s", (double)memory.available_bytes / (1 << 30), (double)memory.total_bytes / (1 << 30),
	                         memory.is_control_group ? " in the control group that this runs in" : "");
	add_check(checks, "memory", vial_memory_percent(&memory) >= LOW_MEMORY_PERCENT, detail,
	          "free some: short of memory, the pool is given back and sandboxes start slower");
	mark_optional(checks);
}

static void check_kernel_file(json_t *checks, const char *name, const char *path, const char *good, const char *advice)
{
	g_autofree char *text = NULL, *detail = NULL;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return; /* this kernel has no such setting */
	g_strstrip(text);
	detail = g_strdup_printf("%s is %s", path, text);
	add_check(checks, name, strstr(text, good) != NULL, detail, advice);
}

json_t *vial_doctor(const VialConfig *config)
{
	json_t *checks = json_array();
	g_autofree char *reason = NULL;
	g_auto(VialMicrovmCheck) microvm = { 0 };
	gboolean is_microvm;

	add_check(checks, "root", geteuid() == 0, geteuid() == 0 ? "running as root" : "not running as root",
	          "sandboxes need root: namespaces and cgroups");
	vial_microvm_check(config, &microvm);
	is_microvm = strcmp(config->engine, "microvm") == 0 || (strcmp(config->engine, "auto") == 0 && microvm.is_fast);
	check_runsc(checks, config, !is_microvm);
	check_cgroups(checks);
	check_disk(checks, config);
	check_memory(checks);
	if (is_microvm) {
		add_check(checks, "microvm", !microvm.problem, microvm.reason, "use engine=gvisor, which needs no KVM");
	} else {
		add_check(checks, "microvm", microvm.is_fast, microvm.reason, "not needed: gVisor is used instead");
		mark_optional(checks);
	}
	check_kernel_file(checks, "ksm", "/sys/kernel/mm/ksm/run", "0",
	                  "turn kernel same-page merging off: it leaks between tenants what pages they have in common");
	check_kernel_file(checks, "smt", "/sys/devices/system/cpu/smt/active", "0",
	                  "for mutually distrusting tenants turn SMT off: sibling threads share caches");
	reason = g_strdup_printf("%s, because %s", is_microvm ? "microvm" : "gvisor",
	                         strcmp(config->engine, "auto") == 0 ? microvm.reason : "the configuration says so");
	return json_pack("{s:o, s:{s:s, s:s}, s:s}", "checks", checks, "engine", "chosen", is_microvm ? "microvm" : "gvisor", "reason", reason,
	                 "version", VIAL_VERSION);
}
