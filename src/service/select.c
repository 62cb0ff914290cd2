/* SPDX-License-Identifier: Apache-2.0 */
#include "service/select.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/cgroup.h"
#include "util/json.h"

#define TAG_LENGTH 8
#define LOW_DISK_BYTES (2LL * 1024 * 1024 * 1024)

char *vial_installation_tag(const VialConfig *config)
{
	g_autofree char *real = g_canonicalize_filename(config->data_dir, "/");
	g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, real, -1);

	return g_strndup(sum, TAG_LENGTH);
}

/* Asks our monitor, which runs a small real guest: a /dev/kvm that merely opens is not enough. */
static gboolean microvm_works(const VialConfig *config, char **out_reason)
{
	g_autofree char *program = g_build_filename(config->program_dir, "vial-vmm", NULL);
	char *arguments[] = { program, "--probe", NULL };
	g_autofree char *output = NULL;
	g_autoptr(json_t) report = NULL;

	if (access("/dev/kvm", F_OK) < 0) {
		*out_reason = g_strdup("this host has no /dev/kvm");
		return FALSE;
	}
	if (access(program, X_OK) < 0) {
		*out_reason = g_strdup("this build has no microVM monitor");
		return FALSE;
	}
	if (!g_spawn_sync(NULL, arguments, NULL, G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &output, NULL, NULL, NULL) ||
	    !(report = json_loads(output, 0, NULL))) {
		*out_reason = g_strdup("the microVM probe did not answer");
		return FALSE;
	}
	*out_reason = g_strdup(json_string_value(json_object_get(report, "reason")));
	return json_is_true(json_object_get(report, "usable"));
}

VialEngine *vial_engine_select(const VialConfig *config, const char *tag, char **out_reason, GError **error)
{
	g_autofree char *kvm = NULL, *run_dir = g_build_filename(config->run_dir, tag, NULL);
	VialEngine *engine;

	if (strcmp(config->engine, "microvm") == 0) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "engine=microvm is not available in this build; use engine=auto or engine=gvisor");
		return NULL;
	}
	engine = vial_gvisor_new(config->runsc, config->program_dir, run_dir, tag, error);
	if (!engine)
		return NULL;
	if (strcmp(config->engine, "gvisor") == 0)
		*out_reason = g_strdup("gvisor, because the configuration says so");
	else if (microvm_works(config, &kvm))
		*out_reason = g_strdup("gvisor, although KVM works here: the microVM engine is not wired in yet");
	else
		*out_reason = g_strdup_printf("gvisor, because the microVM engine cannot be used: %s", kvm ? kvm : "unknown");
	return engine;
}

static void add_check(json_t *checks, const char *name, gboolean is_ok, const char *detail, const char *advice)
{
	json_array_append_new(checks, json_pack("{s:s, s:b, s:s, s:s*}", "name", name, "ok", is_ok, "detail", detail, "advice",
	                                        is_ok ? NULL : advice));
}

static void check_runsc(json_t *checks, const VialConfig *config)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *version = vial_gvisor_probe(config->runsc, &error);
	g_autofree char *detail = version ? g_strdup_printf("runsc %s, platform systrap", version) : g_strdup(error->message);

	add_check(checks, "gvisor", version != NULL, detail, "run `make up`, which installs runsc");
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

static void check_kernel_file(json_t *checks, const char *name, const char *path, const char *good, const char *advice)
{
	g_autofree char *text = NULL, *detail = NULL;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return; /* this kernel has no such setting */
	g_strstrip(text);
	detail = g_strdup_printf("%s is %s", path, text);
	add_check(checks, name, strstr(text, good) != NULL, detail, advice);
}

/* The last check only says what could be better: its failure is none of the host's. */
static void mark_optional(json_t *checks)
{
	json_object_set_new(json_array_get(checks, json_array_size(checks) - 1), "needed", json_false());
}

json_t *vial_doctor(const VialConfig *config)
{
	json_t *checks = json_array();
	g_autofree char *kvm = NULL, *reason = NULL;
	gboolean has_microvm;

	add_check(checks, "root", geteuid() == 0, geteuid() == 0 ? "running as root" : "not running as root",
	          "sandboxes need root: namespaces and cgroups");
	check_runsc(checks, config);
	check_cgroups(checks);
	check_disk(checks, config);
	has_microvm = microvm_works(config, &kvm);
	add_check(checks, "microvm", has_microvm, kvm ? kvm : "usable", "not needed: gVisor is used instead");
	mark_optional(checks);
	check_kernel_file(checks, "ksm", "/sys/kernel/mm/ksm/run", "0",
	                  "turn kernel same-page merging off: it leaks between tenants what pages they have in common");
	check_kernel_file(checks, "smt", "/sys/devices/system/cpu/smt/active", "0",
	                  "for mutually distrusting tenants turn SMT off: sibling threads share caches");
	reason = g_strdup_printf("gvisor, because %s",
	                         strcmp(config->engine, "gvisor") == 0 ? "the configuration says so" : kvm ? kvm : "of the configuration");
	return json_pack("{s:o, s:{s:s, s:s}, s:s}", "checks", checks, "engine", "chosen", "gvisor", "reason", reason, "version", VIAL_VERSION);
}
