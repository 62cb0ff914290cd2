/* SPDX-License-Identifier: Apache-2.0 */
/* See jail.h. No pid namespace: forks must outlive their parent, and a pid namespace dies with its first process. */
#include "jail.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "disk.h"
#include "seccomp.h"

#define MAX_FILES 1024u

/* Any directory that exists will do to mount the new root on: it is seen by nobody else. */
static int enter_empty_root(void)
{
	static const char *const places[] = { "/mnt", "/run", "/tmp", "/var", "/usr" };
	unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	size_t i = 0;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	while (i < sizeof(places) / sizeof(*places) && mount("vial", places[i], "tmpfs", flags, "size=4k,nr_inodes=2,mode=555") < 0)
		i++;
	if (i == sizeof(places) / sizeof(*places) || chdir(places[i]) < 0)
		return -errno;
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) < 0 ? -errno : 0;
}

static int set_limit(int resource, rlim_t value)
{
	struct rlimit limit = { value, value };

	return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

static int set_limits(void)
{
	int result = set_limit(RLIMIT_NOFILE, MAX_FILES);

	if (result == 0)
		result = set_limit(RLIMIT_CORE, 0);
	if (result == 0)
		result = set_limit(RLIMIT_FSIZE, VIAL_DISK_MAX_BYTES);
	if (result == 0)
		result = set_limit(RLIMIT_MEMLOCK, 0);
	if (result == 0)
		result = set_limit(RLIMIT_MSGQUEUE, 0);
	return result;
}

static int drop_privileges(const struct vial_jail *jail)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
		if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
			return -errno;
	}
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (setgroups(0, NULL) < 0 || setresgid(jail->gid, jail->gid, jail->gid) < 0 || setresuid(jail->uid, jail->uid, jail->uid) < 0)
		return -errno;
	if (syscall(SYS_capset, &header, none) < 0)
		return -errno;
	/* Neither a core dump nor a debugger of the same user may look in. */
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int vial_jail_enter(const struct vial_jail *jail, const char **out_error)
{
	int result;

	*out_error = "the jail's user must not be root";
	if (jail->uid == 0 || jail->gid == 0)
		return -EINVAL;
	*out_error = "the jail's namespaces cannot be made";
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0)
		return -errno;
	*out_error = "the jail's empty root cannot be entered";
	result = enter_empty_root();
	if (result == 0) {
		*out_error = "the jail's limits cannot be set";
		result = set_limits();
	}
	if (result == 0) {
		*out_error = "the jail's user cannot be taken";
		result = drop_privileges(jail);
	}
	if (result == 0) {
		*out_error = "the system call filter cannot be loaded";
		result = vial_seccomp_enter(VIAL_THREAD_CONTROL);
	}
	return result;
}
