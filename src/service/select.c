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

typedef struct {
	json_t *report;  /* of the probe, or NULL */
	char *problem;   /* why it cannot be used at all, or NULL */
	gboolean is_fast; /* and is worth being chosen */
	char *reason;    /* one sentence */
} MicrovmCheck;

static void microvm_check_clear(MicrovmCheck *check)
{
	json_decref(check->report);
	g_free(check->problem);
	g_free(check->reason);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(MicrovmCheck, microvm_check_clear)

/* The processor first, then what must be there to boot. */
static void check_microvm(const VialConfig *config, MicrovmCheck *out)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *kernel = NULL, *builder = NULL;
	const char *reason;

	*out = (MicrovmCheck){ .report = vial_microvm_probe(config->program_dir, &error) };
	reason = json_string_value(json_object_get(out->report, "reason"));
	if (!out->report)
		out->problem = g_strdup(error->message);
	else if (!json_is_true(json_object_get(out->report, "works")))
		out->problem = g_strdup(reason ? reason : "the microVM probe failed");
	else if (!(kernel = vial_microvm_kernel(config->images_dir, &error)) || !(builder = vial_microvm_disk_builder(config->program_dir, &error)))
		out->problem = g_strdup(error->message);
	out->is_fast = !out->problem && json_is_true(json_object_get(out->report, "usable"));
	out->reason = g_strdup(out->problem ? out->problem : reason ? reason : "it works");
}

static VialEngine *start_microvm(const VialConfig *config, const char *tag, const MicrovmCheck *check, GError **error)
{
	if (!check->problem)
		return vial_microvm_new(config->program_dir, config->images_dir, check->report, tag, error);
	vial_fail(error, VIAL_ERROR_UNAVAILABLE, "engine=microvm cannot be used here: %s", check->problem);
	return NULL;
}

VialEngine *vial_engine_select(const VialConfig *config, const char *tag, char **out_reason, GError **error)
{
	g_autofree char *run_dir = g_build_filename(config->run_dir, tag, NULL);
	g_auto(MicrovmCheck) check = { 0 };
	VialEngine *engine;

	if (strcmp(config->engine, "gvisor") != 0)
		check_microvm(config, &check);
	if (strcmp(config->engine, "microvm") == 0 || check.is_fast) {
		engine = start_microvm(config, tag, &check, error);
		if (engine)
			*out_reason = strcmp(config->engine, "microvm") == 0 ? g_strdup("microvm, because the configuration says so") :
			                                                       g_strdup_printf("microvm, because %s", check.reason);
		return engine;
	}
	engine = vial_gvisor_new(config->runsc, config->program_dir, run_dir, tag, error);
	if (!engine)
		return NULL;
	if (strcmp(config->engine, "gvisor") == 0)
		*out_reason = g_strdup("gvisor, because the configuration says so");
	else
		*out_reason = g_strdup_printf("gvisor, because the microVM engine cannot be used: %s", check.reason);
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
	g_autofree char *reason = NULL;
	g_auto(MicrovmCheck) microvm = { 0 };
	gboolean is_microvm;

	add_check(checks, "root", geteuid() == 0, geteuid() == 0 ? "running as root" : "not running as root",
	          "sandboxes need root: namespaces and cgroups");
	check_microvm(config, &microvm);
	is_microvm = strcmp(config->engine, "microvm") == 0 || (strcmp(config->engine, "auto") == 0 && microvm.is_fast);
	check_runsc(checks, config);
	if (is_microvm)
		mark_optional(checks);
	check_cgroups(checks);
	check_disk(checks, config);
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
