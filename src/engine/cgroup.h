/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control group of one sandbox, on cgroup v1 (a folder per controller) and v2 (one folder). We make and remove it;
 * runsc only joins. Blocking, but only on kernel files: fine from any thread. `root` is /sys/fs/cgroup, or a folder that
 * stands in for it in the unit test.
 */
#pragma once

#include <glib.h>

typedef struct VialCgroups VialCgroups;

typedef struct {
	double cpu; /* cores */
	gint64 memory_bytes;
	gint64 process_count; /* host processes and threads */
} VialCgroupLimits;

typedef struct {
	gint64 memory_bytes;
	gint64 cpu_usec;
	gint64 oom_kills;
} VialCgroupUsage;

/* `parent` is the folder of this installation's sandboxes, e.g. vial-1a2b3c4d. NULL when neither version is usable. */
VialCgroups *vial_cgroups_new(const char *root, const char *parent, GError **error);
void vial_cgroups_free(VialCgroups *cgroups);
int vial_cgroups_version(const VialCgroups *cgroups); /* 1 or 2 */
/* The path for the OCI specification: /parent/id. */
char *vial_cgroups_path(const VialCgroups *cgroups, const char *id);
/* The file of a group that says which processors it may run on; it need not be there. */
char *vial_cgroup_cpuset_file(VialCgroups *cgroups, const char *id);

gboolean vial_cgroup_create(VialCgroups *cgroups, const char *id, const VialCgroupLimits *limits, GError **error);
/* Moves a process with all its threads into it. */
gboolean vial_cgroup_add(VialCgroups *cgroups, const char *id, int pid, GError **error);
gboolean vial_cgroup_set_limits(VialCgroups *cgroups, const char *id, const VialCgroupLimits *limits, GError **error);
gboolean vial_cgroup_usage(VialCgroups *cgroups, const char *id, VialCgroupUsage *out_usage);
/* Is this process in it? */
gboolean vial_cgroup_has(VialCgroups *cgroups, const char *id, int pid);
/* Kills what is in it besides this process. */
void vial_cgroup_kill_others(VialCgroups *cgroups, const char *id, int pid);
/* Kills whatever is still in it and removes it from every controller; FALSE if something will not go. */
gboolean vial_cgroup_remove(VialCgroups *cgroups, const char *id);
/* The ids of existing groups under our parent, for the sweep after a crash. */
GPtrArray *vial_cgroups_list(VialCgroups *cgroups);
/* Removes the parent itself when it is empty. */
void vial_cgroups_remove_parent(VialCgroups *cgroups);
