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
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "log.h"

/* Any directory of the guest's root does as a mount point for that moment. */
#define MOUNT_POINT "/tmp"
#define GROUP "vial-zone"

static int group_fd = -1;

static int mount_controller(void)
{
	if (mount("none", MOUNT_POINT, "cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, "pids") == 0)
		return 0;
	return mount("none", MOUNT_POINT, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0 ? 0 : -errno;
}

int vial_cgroup_init(void)
{
	int result = mount_controller();
	int root_fd;

	if (result < 0)
		return result;
	root_fd = open(MOUNT_POINT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0 || umount2(MOUNT_POINT, MNT_DETACH) < 0)
		return -errno;
	/* Version 2 wants the controller handed down; version 1 has no such file. */
	vial_file_write_at(root_fd, "cgroup.subtree_control", "+pids");
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
