/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything here except limits must be the same for every sandbox of a template: runsc restores a checkpoint only into
 * the mounts it was taken with. The capabilities are the agent's (it mounts, it changes users); what the guest's
 * programs get is decided inside, by the agent's zone.
 *
 * A template's layers are mounts of type erofs, which the Sentry maps: their pages are the host's page cache, one copy for all sandboxes. They lie in
 * /dev, a tmpfs, because the image is read-only and has no place for them; the agent makes its root of them (agent/rootfs.c) and leaves the rest of
 * that /dev behind.
 */
#include "engine/gvisor_spec.h"

static json_t *capabilities(void)
{
	static const char *const names[] = {
		"CAP_AUDIT_WRITE", "CAP_CHOWN",      "CAP_DAC_OVERRIDE", "CAP_FOWNER",           "CAP_FSETID",
		"CAP_KILL",        "CAP_MKNOD",      "CAP_NET_RAW",      "CAP_NET_BIND_SERVICE", "CAP_SETFCAP",
		"CAP_SETGID",      "CAP_SETPCAP",    "CAP_SETUID",       "CAP_SYS_ADMIN",        "CAP_SYS_CHROOT",
		"CAP_SYS_NICE",    "CAP_SYS_PTRACE", "CAP_SYS_RESOURCE", "CAP_NET_ADMIN",
	};
	json_t *list = json_array(), *sets = json_object();

	for (gsize i = 0; i < G_N_ELEMENTS(names); i++)
		json_array_append_new(list, json_string(names[i]));
	json_object_set(sets, "bounding", list);
	json_object_set(sets, "effective", list);
	json_object_set(sets, "permitted", list);
	json_object_set_new(sets, "inheritable", list);
	return sets;
}

static json_t *process(const VialLaunch *launch)
{
	g_autofree char *disk = g_strdup_printf("VIAL_DISK_MB=%" G_GINT64_FORMAT, launch->limits.disk_mb);
	g_autofree char *layers = g_strdup_printf("VIAL_LAYERS=%u", launch->layers ? g_strv_length((char **)launch->layers) : 0);

	return json_pack("{s:b, s:{s:i, s:i}, s:[s], s:[s, s, s, s], s:s, s:o, s:b, s:[{s:s, s:i, s:i}]}", "terminal", 0, "user", "uid", 0, "gid", 0,
	                 "args", "/opt/vial/vial-agent", "env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
	                 disk, layers, "cwd", "/", "capabilities", capabilities(), "noNewPrivileges", 0, "rlimits", "type", "RLIMIT_NOFILE", "hard",
	                 65536, "soft", 65536);
}

static void add_layers(json_t *list, const char *const *layers)
{
	for (guint i = 0; layers && layers[i]; i++) {
		g_autofree char *place = g_strdup_printf("/dev/vial-layers/%u", i);

		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:[s]}", "destination", place, "type", "erofs", "source", layers[i], "options", "ro"));
	}
}

static json_t *mounts(const VialLaunch *launch)
{
	json_t *list = json_pack("[{s:s, s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s, s:s, s:[s]}, {s:s, s:s, s:s, s:[s, s]}]", "destination", "/proc",
	                         "type", "proc", "source", "proc", "destination", "/dev", "type", "tmpfs", "source", "tmpfs", "destination", "/sys",
	                         "type", "sysfs", "source", "sysfs", "options", "ro", "destination", "/opt/vial", "type", "bind", "source",
	                         launch->runtime_dir, "options", "bind", "ro");

	add_layers(list, launch->layers);
	return list;
}

static json_t *namespaces(const VialLaunch *launch)
{
	return json_pack("[{s:s}, {s:s}, {s:s}, {s:s}, {s:s, s:s*}]", "type", "pid", "type", "ipc", "type", "uts", "type", "mount", "type", "network",
	                 "path", launch->netns);
}

json_t *vial_gvisor_spec(const VialLaunch *launch, const char *cgroup_path)
{
	return json_pack("{s:s, s:o, s:{s:s, s:b}, s:s, s:o, s:{s:o, s:s, s:{}}}", "ociVersion", "1.0.2", "process", process(launch), "root", "path",
	                 launch->rootfs, "readonly", 1, "hostname", "vial", "mounts", mounts(launch), "linux", "namespaces", namespaces(launch),
	                 "cgroupsPath", cgroup_path, "resources");
}
