/* SPDX-License-Identifier: Apache-2.0 */
#include "util/memory.h"

#include <string.h>

#define CGROUP_ROOT "/sys/fs/cgroup"

/* How a group's files are called. */
typedef struct {
	const char *folder; /* below the root of all */
	const char *limit, *usage, *reclaimable;
} Names;

static const Names v1 = { CGROUP_ROOT "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file" };
static const Names v2 = { CGROUP_ROOT, "memory.max", "memory.current", "inactive_file" };

/* The number behind `key` at the start of a line; without a key the file's own. -1: none, which is also what "max" is. */
static gint64 read_number(const char *path, const char *key)
{
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;
	gsize length = key ? strlen(key) : 0;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return -1;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		const char *number = *line + length;

		if (key && (!g_str_has_prefix(*line, key) || !strchr(": \t", *number)))
			continue;
		number += strspn(number, ": \t");
		return g_ascii_isdigit(*number) ? g_ascii_strtoll(number, NULL, 10) : -1;
	}
	return -1;
}

static gint64 group_number(const char *group, const char *file, const char *key)
{
	g_autofree char *path = g_build_filename(group, file, NULL);

	return read_number(path, key);
}

/* Compared as shares, because marks are shares. */
static void take_tighter(VialMemory *memory, gint64 total, gint64 available)
{
	if ((double)available / (double)total >= (double)memory->available_bytes / (double)memory->total_bytes)
		return;
	*memory = (VialMemory){ .total_bytes = total, .available_bytes = available, .is_control_group = TRUE };
}

static void look_at_group(const char *group, const Names *names, gint64 machine_bytes, VialMemory *memory)
{
	gint64 limit = group_number(group, names->limit, NULL), usage, reclaimable;

	/* Version 1 has a huge number for none. The rest is only read for a real one: the sums of a group with hundreds below it take a while. */
	if (limit <= 0 || limit >= machine_bytes)
		return;
	usage = group_number(group, names->usage, NULL);
	reclaimable = group_number(group, "memory.stat", names->reclaimable);
	if (usage < 0)
		return;
	take_tighter(memory, limit, CLAMP(limit - usage + MAX(reclaimable, 0), 0, limit));
}

/* The path in /proc/self/cgroup of version 1's memory controller, or of version 2: NULL if there is no such line. */
static char *own_path(const char *root, gboolean is_v2)
{
	g_autofree char *file = g_build_filename(root, "/proc/self/cgroup", NULL);
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;

	if (!g_file_get_contents(file, &text, NULL, NULL))
		return NULL;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		g_auto(GStrv) fields = g_strsplit(*line, ":", 3);
		g_auto(GStrv) controllers = NULL;

		if (g_strv_length(fields) != 3)
			continue;
		controllers = g_strsplit(fields[1], ",", -1);
		if (is_v2 ? strcmp(fields[0], "0") == 0 : g_strv_contains((const char *const *)controllers, "memory"))
			return g_strdup(fields[2]);
	}
	return NULL;
}

/* Our group and those above it, up to the top of what we see: in a container that is the container's. */
static void look_at_groups(const char *root, const Names *names, VialMemory *memory)
{
	g_autofree char *top = g_build_filename(root, names->folder, NULL);
	g_autofree char *path = own_path(root, names == &v2);
	gint64 machine_bytes = memory->total_bytes;

	look_at_group(top, names, machine_bytes, memory);
	while (path && strlen(path) > 1) {
		g_autofree char *group = g_build_filename(top, path, NULL);
		char *parent = g_path_get_dirname(path);

		/* One of a hierarchy that is mounted elsewhere is not found, and is not ours to see. */
		look_at_group(group, names, machine_bytes, memory);
		g_free(path);
		path = parent;
	}
}

gboolean vial_memory_read(const char *root, VialMemory *out)
{
	g_autofree char *meminfo = g_build_filename(root, "/proc/meminfo", NULL);
	g_autofree char *v2_marker = g_build_filename(root, CGROUP_ROOT "/cgroup.controllers", NULL);
	gint64 total_kb = read_number(meminfo, "MemTotal"), available_kb = read_number(meminfo, "MemAvailable");

	if (total_kb <= 0 || available_kb < 0)
		return FALSE;
	*out = (VialMemory){ .total_bytes = total_kb * 1024, .available_bytes = available_kb * 1024 };
	look_at_groups(root, g_file_test(v2_marker, G_FILE_TEST_EXISTS) ? &v2 : &v1, out);
	return TRUE;
}

guint vial_memory_percent(const VialMemory *memory)
{
	return (guint)(memory->available_bytes * 100 / memory->total_bytes);
}
