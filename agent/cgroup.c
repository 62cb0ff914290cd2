/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See cgroup.h. The file system is mounted for a moment, its directory opened, and unmounted lazily: the descriptor is then the only way
 * to it, so no program in the guest can raise its own limit.
 */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "log.h"

/* Any directory of the guest's root does as a mount point for that moment. */
#define MOUNT_POINT "/tmp"
#define GROUP "vial-zone"

static int group_fd = -1;
static int cpu_fd = -1; /* a directory with cpuacct.usage or cpu.stat */

/* A descriptor of the hierarchy's root directory, or -errno. */
static int open_hierarchy(const char *type, const char *options)
{
	int fd, error;

	if (mount("none", MOUNT_POINT, type, MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
		return -errno;
	fd = open(MOUNT_POINT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	error = errno;
	if (umount2(MOUNT_POINT, MNT_DETACH) < 0 && fd >= 0) {
		error = errno;
		close(fd);
		fd = -1;
	}
	return fd < 0 ? -error : fd;
}

int vial_cgroup_init(void)
{
	int result = 0;
	int root_fd = open_hierarchy("cgroup", "pids");

	if (root_fd >= 0) {
		cpu_fd = open_hierarchy("cgroup", "cpuacct");
	} else {
		root_fd = open_hierarchy("cgroup2", NULL);
		if (root_fd < 0)
			return root_fd;
		/* Version 2 wants controllers handed down. */
		vial_file_write_at(root_fd, "cgroup.subtree_control", "+pids +cpu");
	}
	if (mkdirat(root_fd, GROUP, 0700) < 0 && errno != EEXIST)
		result = -errno;
	else if ((group_fd = openat(root_fd, GROUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		result = -errno;
	close(root_fd);
	return result;
}

void vial_cgroup_set_process_limit(unsigned limit)
{
	char text[32];
	int result;

	if (group_fd < 0)
		return;
	snprintf(text, sizeof(text), "%u", limit);
	result = vial_file_write_at(group_fd, "pids.max", text);
	if (result < 0)
		vial_log("error", "cannot set the process limit (errno %d)", -result);
}

int vial_cgroup_add(pid_t pid)
{
	char text[32];

	if (group_fd < 0)
		return 0;
	snprintf(text, sizeof(text), "%d", (int)pid);
	return vial_file_write_at(group_fd, "cgroup.procs", text);
}

long vial_cgroup_process_count(void)
{
	char text[32];

	if (group_fd < 0 || vial_file_read_at(group_fd, "pids.current", text, sizeof(text)) <= 0)
		return -1;
	return atol(text);
}

int64_t vial_cgroup_cpu_ms(void)
{
	char text[512];
	const char *usage;

	if (cpu_fd >= 0 && vial_file_read_at(cpu_fd, "cpuacct.usage", text, sizeof(text)) > 0)
		return atoll(text) / 1000000;
	if (group_fd >= 0 && vial_file_read_at(group_fd, "cpu.stat", text, sizeof(text)) > 0 && (usage = strstr(text, "usage_usec ")))
		return atoll(usage + strlen("usage_usec ")) / 1000;
	return -1;
}
