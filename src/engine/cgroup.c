/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"

#define CPU_PERIOD_USEC 100000
#define REMOVE_TRIES 1000
#define REMOVE_PAUSE_USEC 10000

struct VialCgroups {
	char *root;
	char *parent;
	int version;
	GPtrArray *controllers; /* v1: names of mounted controllers; v2: one empty name */
};

/* The v1 controllers we set limits in; the others are only removed after runsc has joined them. */
static const char *const needed[] = { "cpu", "memory", "pids" };

static char *group_file(VialCgroups *cgroups, const char *controller, const char *id, const char *file)
{
	return g_build_filename(cgroups->root, cgroups->version == 1 ? controller : ".", cgroups->parent, id, file, NULL);
}

static gboolean write_file(const char *path, const char *text, GError **error)
{
	int fd = g_open(path, O_WRONLY | O_CLOEXEC);
	gsize size = strlen(text);
	gboolean is_ok = fd >= 0 && write(fd, text, size) == (ssize_t)size;
	int saved = errno;

	if (fd >= 0)
		close(fd);
	return is_ok || vial_fail(error, VIAL_ERROR_INTERNAL, "cannot write %s to %s: %s", text, path, g_strerror(saved));
}

static gint64 read_number(const char *path, const char *key)
{
	g_autofree char *text = NULL;
	const char *found;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return -1;
	if (!key)
		return g_ascii_strtoll(text, NULL, 10);
	for (found = text; (found = strstr(found, key)); found += strlen(key))
		if ((found == text || found[-1] == '\n') && found[strlen(key)] == ' ')
			return g_ascii_strtoll(found + strlen(key), NULL, 10);
	return -1;
}

static void find_v1_controllers(VialCgroups *cgroups)
{
	g_autoptr(GDir) dir = g_dir_open(cgroups->root, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *procs = g_build_filename(cgroups->root, name, "cgroup.procs", NULL);

		if (g_file_test(procs, G_FILE_TEST_EXISTS))
			g_ptr_array_add(cgroups->controllers, g_strdup(name));
	}
}

static gboolean has_controller(VialCgroups *cgroups, const char *name)
{
	return g_ptr_array_find_with_equal_func(cgroups->controllers, name, g_str_equal, NULL);
}

/* Controllers must be switched on from the top down before a group below can have limits. */
static gboolean enable_v2(VialCgroups *cgroups, GError **error)
{
	g_autofree char *top = g_build_filename(cgroups->root, "cgroup.subtree_control", NULL);
	g_autofree char *folder = g_build_filename(cgroups->root, cgroups->parent, NULL);
	g_autofree char *ours = g_build_filename(folder, "cgroup.subtree_control", NULL);

	if (!write_file(top, "+cpu +memory +pids", error))
		return FALSE;
	if (mkdir(folder, 0755) < 0 && errno != EEXIST)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot make %s: %s", folder, g_strerror(errno));
	/* Only so that there is a file that says which processors there are. */
	if (write_file(top, "+cpuset", NULL))
		write_file(ours, "+cpuset", NULL);
	return write_file(ours, "+cpu +memory +pids", error);
}

VialCgroups *vial_cgroups_new(const char *root, const char *parent, GError **error)
{
	VialCgroups *cgroups = g_new0(VialCgroups, 1);
	g_autofree char *v2_marker = g_build_filename(root, "cgroup.controllers", NULL);

	cgroups->root = g_strdup(root);
	cgroups->parent = g_strdup(parent);
	cgroups->controllers = g_ptr_array_new_with_free_func(g_free);
	if (g_file_test(v2_marker, G_FILE_TEST_EXISTS)) {
		cgroups->version = 2;
		g_ptr_array_add(cgroups->controllers, g_strdup(""));
		if (enable_v2(cgroups, error))
			return cgroups;
		vial_cgroups_free(cgroups);
		return NULL;
	}
	cgroups->version = 1;
	find_v1_controllers(cgroups);
	for (gsize i = 0; i < G_N_ELEMENTS(needed); i++)
		if (!has_controller(cgroups, needed[i])) {
			vial_fail(error, VIAL_ERROR_UNAVAILABLE,
			          "the cgroup controller %s is not mounted under %s, so sandboxes could not be limited", needed[i], root);
			vial_cgroups_free(cgroups);
			return NULL;
		}
	return cgroups;
}

void vial_cgroups_free(VialCgroups *cgroups)
{
	if (!cgroups)
		return;
	g_ptr_array_unref(cgroups->controllers);
	g_free(cgroups->root);
	g_free(cgroups->parent);
	g_free(cgroups);
}

int vial_cgroups_version(const VialCgroups *cgroups)
{
	return cgroups->version;
}

char *vial_cgroups_path(const VialCgroups *cgroups, const char *id)
{
	return g_strdup_printf("/%s/%s", cgroups->parent, id);
}

char *vial_cgroup_cpuset_file(VialCgroups *cgroups, const char *id)
{
	return group_file(cgroups, "cpuset", id, cgroups->version == 2 ? "cpuset.cpus.effective" : "cpuset.cpus");
}

static gboolean set_limit(VialCgroups *cgroups, const char *id, const char *controller, const char *file, const char *value, GError **error)
{
	g_autofree char *path = group_file(cgroups, controller, id, file);

	return write_file(path, value, error);
}

gboolean vial_cgroup_set_limits(VialCgroups *cgroups, const char *id, const VialCgroupLimits *limits, GError **error)
{
	gint64 quota = (gint64)(limits->cpu * CPU_PERIOD_USEC);
	g_autofree char *memory = g_strdup_printf("%" G_GINT64_FORMAT, limits->memory_bytes);
	g_autofree char *pids = g_strdup_printf("%" G_GINT64_FORMAT, limits->process_count);
	g_autofree char *cpu = cgroups->version == 2 ? g_strdup_printf("%" G_GINT64_FORMAT " %d", quota, CPU_PERIOD_USEC)
	                                             : g_strdup_printf("%" G_GINT64_FORMAT, quota);

	if (cgroups->version == 2)
		return set_limit(cgroups, id, "", "memory.max", memory, error) && set_limit(cgroups, id, "", "pids.max", pids, error) &&
		       set_limit(cgroups, id, "", "cpu.max", cpu, error);
	return set_limit(cgroups, id, "memory", "memory.limit_in_bytes", memory, error) && set_limit(cgroups, id, "pids", "pids.max", pids, error) &&
	       set_limit(cgroups, id, "cpu", "cpu.cfs_quota_us", cpu, error);
}

static gboolean make_group(VialCgroups *cgroups, const char *controller, const char *id, GError **error)
{
	g_autofree char *path = group_file(cgroups, controller, id, "");

	if (g_mkdir_with_parents(path, 0755) < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot make the cgroup %s: %s", path, g_strerror(errno));
	return TRUE;
}

/*
 * A guest's memory stays out of swap: its secrets off the disk, its pause short, its limit true. Not by mlock(2): that would pin what a restored
 * guest only maps from its image, too. Where the kernel keeps no account of swap there is no such file, and none to forbid.
 */
static gboolean forbid_swap(VialCgroups *cgroups, const char *id, GError **error)
{
	g_autofree char *path = group_file(cgroups, "memory", id, cgroups->version == 2 ? "memory.swap.max" : "memory.swappiness");

	return !g_file_test(path, G_FILE_TEST_EXISTS) || write_file(path, "0", error);
}

/* A new group of v1's cpuset has no processors and nobody can join it: it gets those of the group above, which is all that ours ever have. */
static void fill_cpuset(VialCgroups *cgroups, const char *parent, const char *id)
{
	static const char *const files[] = { "cpuset.cpus", "cpuset.mems" };

	for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
		g_autofree char *above = g_build_filename(cgroups->root, "cpuset", parent, files[i], NULL), *all = NULL;
		g_autofree char *own = g_build_filename(cgroups->root, "cpuset", parent, id, files[i], NULL), *text = NULL;

		if (g_file_get_contents(own, &text, NULL, NULL) && *g_strstrip(text) == '\0' && g_file_get_contents(above, &all, NULL, NULL))
			write_file(own, g_strstrip(all), NULL);
	}
}

static gboolean make_cpuset(VialCgroups *cgroups, const char *id, GError **error)
{
	if (!has_controller(cgroups, "cpuset"))
		return TRUE;
	if (!make_group(cgroups, "cpuset", id, error))
		return FALSE;
	fill_cpuset(cgroups, "", cgroups->parent);
	fill_cpuset(cgroups, cgroups->parent, id);
	return TRUE;
}

gboolean vial_cgroup_create(VialCgroups *cgroups, const char *id, const VialCgroupLimits *limits, GError **error)
{
	gboolean is_ok = cgroups->version == 2 || make_cpuset(cgroups, id, error);

	if (cgroups->version == 2)
		is_ok = make_group(cgroups, "", id, error);
	for (gsize i = 0; is_ok && cgroups->version == 1 && i < G_N_ELEMENTS(needed); i++)
		is_ok = make_group(cgroups, needed[i], id, error);
	if (is_ok && forbid_swap(cgroups, id, error) && vial_cgroup_set_limits(cgroups, id, limits, error))
		return TRUE;
	vial_cgroup_remove(cgroups, id);
	return FALSE;
}

gboolean vial_cgroup_add(VialCgroups *cgroups, const char *id, int pid, GError **error)
{
	/* cpuacct is where v1 counts; often it is mounted together with cpu, and then this is the same folder. */
	const char *const v1[] = { "cpu", "memory", "pids", "cpuacct" };
	g_autofree char *text = g_strdup_printf("%d", pid);
	gboolean is_ok = TRUE;

	if (cgroups->version == 2)
		return set_limit(cgroups, id, "", "cgroup.procs", text, error);
	for (gsize i = 0; is_ok && i < G_N_ELEMENTS(v1); i++)
		if (has_controller(cgroups, v1[i]))
			is_ok = make_group(cgroups, v1[i], id, error) && set_limit(cgroups, id, v1[i], "cgroup.procs", text, error);
	return is_ok;
}

gboolean vial_cgroup_usage(VialCgroups *cgroups, const char *id, VialCgroupUsage *out_usage)
{
	gboolean is_v2 = cgroups->version == 2;
	g_autofree char *memory = group_file(cgroups, "memory", id, is_v2 ? "memory.current" : "memory.usage_in_bytes");
	g_autofree char *oom = group_file(cgroups, "memory", id, is_v2 ? "memory.events" : "memory.oom_control");
	g_autofree char *cpu = group_file(cgroups, "cpuacct", id, is_v2 ? "cpu.stat" : "cpuacct.usage");
	gint64 cpu_value = read_number(cpu, is_v2 ? "usage_usec" : NULL);
	VialCgroupUsage usage = {
		.memory_bytes = read_number(memory, NULL),
		.oom_kills = read_number(oom, "oom_kill"),
		.cpu_usec = is_v2 || cpu_value < 0 ? cpu_value : cpu_value / 1000,
	};

	if (usage.memory_bytes < 0)
		return FALSE;
	*out_usage = usage;
	return TRUE;
}

gboolean vial_cgroup_has(VialCgroups *cgroups, const char *id, int pid)
{
	g_autofree char *path = group_file(cgroups, "pids", id, "cgroup.procs"), *text = NULL, *number = g_strdup_printf("%d", pid);
	g_auto(GStrv) lines = NULL;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return FALSE;
	lines = g_strsplit(text, "\n", -1);
	return g_strv_contains((const char *const *)lines, number);
}

static void kill_members(VialCgroups *cgroups, const char *controller, const char *id, int spared)
{
	g_autofree char *path = group_file(cgroups, controller, id, "cgroup.procs");
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		int pid = atoi(*line);

		if (pid > 1 && pid != spared && pid != getpid())
			kill(pid, SIGKILL);
	}
}

void vial_cgroup_kill_others(VialCgroups *cgroups, const char *id, int pid)
{
	kill_members(cgroups, "pids", id, pid);
}

gboolean vial_cgroup_remove(VialCgroups *cgroups, const char *id)
{
	gboolean is_gone = TRUE;

	for (guint i = 0; i < cgroups->controllers->len; i++) {
		const char *controller = cgroups->controllers->pdata[i];
		g_autofree char *folder = group_file(cgroups, controller, id, "");
		int tries;

		for (tries = 0; tries < REMOVE_TRIES; tries++) {
			if (rmdir(folder) == 0 || errno == ENOENT)
				break;
			/* Busy: something still lives in it, or the kernel has not finished burying it. */
			kill_members(cgroups, controller, id, 0);
			g_usleep(REMOVE_PAUSE_USEC);
		}
		is_gone = is_gone && tries < REMOVE_TRIES;
	}
	return is_gone;
}

GPtrArray *vial_cgroups_list(VialCgroups *cgroups)
{
	GPtrArray *ids = g_ptr_array_new_with_free_func(g_free);
	g_autofree char *folder = group_file(cgroups, "memory", "", "");
	g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(folder, name, NULL);

		if (g_file_test(path, G_FILE_TEST_IS_DIR))
			g_ptr_array_add(ids, g_strdup(name));
	}
	return ids;
}

void vial_cgroups_remove_parent(VialCgroups *cgroups)
{
	for (guint i = 0; i < cgroups->controllers->len; i++) {
		g_autofree char *folder = group_file(cgroups, cgroups->controllers->pdata[i], "", "");

		rmdir(folder);
	}
}
