/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of the memory: in folders made up to look like a machine's /proc and /sys/fs/cgroup. */
#include <glib/gstdio.h>

#include "util/memory.h"
#include "util/tree.h"

#define MIB (1024 * 1024)
#define MEMINFO "MemTotal:        8388608 kB\nMemFree:  100 kB\nMemAvailable:    4194304 kB\nSwapTotal: 0 kB\n"
#define UNLIMITED "9223372036854771712\n"

static char *root;

static void put(const char *name, const char *text)
{
	g_autofree char *path = g_build_filename(root, name, NULL);
	g_autofree char *folder = g_path_get_dirname(path);

	g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
	g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void put_group(const char *folder, gboolean is_v2, const char *limit, const char *usage, const char *inactive_file)
{
	g_autofree char *limit_file = g_build_filename(folder, is_v2 ? "memory.max" : "memory.limit_in_bytes", NULL);
	g_autofree char *usage_file = g_build_filename(folder, is_v2 ? "memory.current" : "memory.usage_in_bytes", NULL);
	g_autofree char *stat_file = g_build_filename(folder, "memory.stat", NULL);
	g_autofree char *stat = g_strdup_printf("inactive_anon 5\n%s 7\n%s %s\n", is_v2 ? "inactive_file_x" : "inactive_file",
	                                        is_v2 ? "inactive_file" : "total_inactive_file", inactive_file);

	put(limit_file, limit);
	put(usage_file, usage);
	put(stat_file, stat);
}

static VialMemory read_memory(void)
{
	VialMemory memory;

	g_assert_true(vial_memory_read(root, &memory));
	return memory;
}

static void start(void)
{
	root = g_dir_make_tmp("vial-memory-XXXXXX", NULL);
	put("proc/meminfo", MEMINFO);
}

static void end(void)
{
	vial_tree_remove(root);
	g_clear_pointer(&root, g_free);
}

static void test_the_machine(void)
{
	VialMemory memory;

	start();
	memory = read_memory();
	g_assert_cmpint(memory.total_bytes, ==, 8192LL * MIB);
	g_assert_cmpuint(vial_memory_percent(&memory), ==, 50);
	g_assert_false(memory.is_control_group);
	put("proc/meminfo", "nothing\n");
	g_assert_false(vial_memory_read(root, &memory));
	end();
}

static void test_version_1(void)
{
	VialMemory memory;

	start();
	put("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/service/part\n0::/elsewhere\n");
	put_group("sys/fs/cgroup/memory", FALSE, UNLIMITED, "100\n", "0");
	put_group("sys/fs/cgroup/memory/service/part", FALSE, UNLIMITED, "100\n", "0");
	memory = read_memory();
	g_assert_false(memory.is_control_group);
	/* 1 GiB, of which 768 MiB are used, 128 of them by files that can go. */
	put_group("sys/fs/cgroup/memory/service", FALSE, "1073741824\n", "805306368\n", "134217728");
	memory = read_memory();
	g_assert_true(memory.is_control_group);
	g_assert_cmpint(memory.total_bytes, ==, 1024 * MIB);
	g_assert_cmpint(memory.available_bytes, ==, 384 * MIB);
	g_assert_cmpuint(vial_memory_percent(&memory), ==, 37);
	end();
}

static void test_version_2(void)
{
	VialMemory memory;

	start();
	put("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
	put("proc/self/cgroup", "0::/\n");
	put_group("sys/fs/cgroup", TRUE, "max\n", "100\n", "0");
	memory = read_memory();
	g_assert_false(memory.is_control_group);
	/* A container: its group is the top of what it sees. More in use than allowed is nothing left, not less. */
	put_group("sys/fs/cgroup", TRUE, "1073741824\n", "1073741900\n", "0");
	memory = read_memory();
	g_assert_true(memory.is_control_group);
	g_assert_cmpuint(vial_memory_percent(&memory), ==, 0);
	/* A roomy group below a tight one, and the other way round. */
	put("proc/self/cgroup", "0::/slice/service\n");
	put_group("sys/fs/cgroup", TRUE, "max\n", "100\n", "0");
	put_group("sys/fs/cgroup/slice", TRUE, "2147483648\n", "1932735283\n", "0");
	put_group("sys/fs/cgroup/slice/service", TRUE, "1073741824\n", "0\n", "0");
	memory = read_memory();
	g_assert_cmpuint(vial_memory_percent(&memory), ==, 10);
	put_group("sys/fs/cgroup/slice/service", TRUE, "1073741824\n", "1073741824\n", "53687091");
	memory = read_memory();
	g_assert_cmpuint(vial_memory_percent(&memory), ==, 4);
	end();
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/memory/the-machine", test_the_machine);
	g_test_add_func("/memory/version-1", test_version_1);
	g_test_add_func("/memory/version-2", test_version_2);
	return g_test_run();
}
