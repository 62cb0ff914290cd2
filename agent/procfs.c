/* SPDX-License-Identifier: Apache-2.0 */
/* See procfs.h. */
#include "procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "files.h"
#include "loop.h"

#define SCAN_BUDGET_MS 500

static int proc_fd = -1;

int vial_procfs_init(void)
{
	proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc_fd < 0)
		return -errno;
	if (umount2("/proc", MNT_DETACH) < 0)
		return -errno;
	/* Nothing can be put in its place either: file operations would write where no program ever looks. */
	return mount("none", "/proc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,mode=555") < 0 ? -errno : 0;
}

int vial_procfs_fd(void)
{
	return proc_fd;
}

/* /proc/PID/stat: the name in brackets may contain anything, so fields are counted from the last bracket. */
static int parse_stat(const char *text, struct vial_process *process)
{
	const char *fields = strrchr(text, ')');
	unsigned long long user_ticks, system_ticks;
	long long reaped_user_ticks, reaped_system_ticks;
	long ticks_per_second = sysconf(_SC_CLK_TCK);
	long rss_pages, threads;
	int parent, session;

	if (!fields ||
	    sscanf(fields + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld %*d %*d %ld %*d %*u %*u %ld", &process->state, &parent,
	           &session, &user_ticks, &system_ticks, &reaped_user_ticks, &reaped_system_ticks, &threads, &rss_pages) != 9)
		return -EINVAL;
	process->parent = parent;
	process->session = session;
	process->threads = threads > 0 ? (unsigned)threads : 1;
	process->cpu_ms = (user_ticks + system_ticks) * 1000 / (unsigned long long)ticks_per_second;
	process->reaped_cpu_ms = (uint64_t)(reaped_user_ticks + reaped_system_ticks) * 1000 / (unsigned long long)ticks_per_second;
	process->rss_kb = rss_pages > 0 ? (uint64_t)rss_pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024 : 0;
	return 0;
}

int vial_procfs_read(pid_t pid, struct vial_process *out_process)
{
	struct vial_process process = { .pid = pid };
	char path[32], text[1024];
	int result;

	snprintf(path, sizeof(path), "%d/stat", (int)pid);
	result = vial_file_read_at(proc_fd, path, text, sizeof(text));
	if (result >= 0)
		result = parse_stat(text, &process);
	if (result == 0)
		*out_process = process;
	return result;
}

void vial_procfs_for_each(bool (*fn)(const struct vial_process *process, void *data), void *data)
{
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	int64_t end_ms = vial_loop_clock_ms() + SCAN_BUDGET_MS;
	struct dirent *entry;

	if (!directory) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(directory))) {
		struct vial_process process;

		if (!isdigit((unsigned char)*entry->d_name) || vial_procfs_read(atoi(entry->d_name), &process) < 0)
			continue;
		if (!fn(&process, data) || vial_loop_clock_ms() > end_ms)
			break;
	}
	closedir(directory);
}

uint64_t vial_procfs_meminfo_kb(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, name, length) == 0 && line[length] == ':')
			return strtoull(line + length + 1, NULL, 10);
	}
	return 0;
}

bool vial_procfs_has_oom_killer(void)
{
	return access("/proc/sys/vm/panic_on_oom", F_OK) == 0;
}
