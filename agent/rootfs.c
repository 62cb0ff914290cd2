/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See rootfs.h. With a disk size: a tmpfs of that size, an overlay with the image and its layers below and the tmpfs above, and a pivot into it. So a
 * full disk is a plain ENOSPC for programs, and the disk travels with the snapshot of the sandbox's memory. In a microVM the disk is a real one, and
 * what has to be laid together is so before we come.
 *
 * The overlay's parts are out of reach of everybody afterwards; we keep descriptors of them, for layer.c.
 */
#include "rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "users.h"

#define FALLBACK_UID 1000
/* /dev is a tmpfs too, and guest root may write there: it must not be a way around the disk's size. */
#define DEV_OPTIONS "size=1m,mode=755"
#define SHM_OPTIONS "size=256m,mode=1777"

static int disk_fd = -1;
static int disk_is_memory;
static struct vial_rootfs_layers layers = { .upper_fd = -1 };

/* A read-only image offers no choice but the directories it has. */
static const char *find_mount_point(void)
{
	static const char *const candidates[] = { "/mnt", "/run", "/media", "/tmp", "/srv" };

	for (size_t i = 0; i < sizeof(candidates) / sizeof(*candidates); i++) {
		struct stat info;

		if (stat(candidates[i], &info) == 0 && S_ISDIR(info.st_mode))
			return candidates[i];
	}
	return NULL;
}

/* What is mounted at `path` appears at the same place below the new root; nothing there is no error. */
static int carry_over(const char *new_root, const char *path)
{
	char target[128];
	struct stat info;

	if (stat(path, &info) < 0)
		return 0;
	snprintf(target, sizeof(target), "%s%s", new_root, path);
	if (mkdir(target, 0755) < 0 && errno != EEXIST)
		return -errno;
	return mount(path, target, NULL, MS_BIND | MS_REC, NULL) < 0 ? -errno : 0;
}

static int mount_disk(const char *base, unsigned long disk_mb)
{
	char options[64];

	snprintf(options, sizeof(options), "size=%lum,mode=755", disk_mb);
	if (mount("tmpfs", base, "tmpfs", MS_NODEV, options) < 0)
		return -errno;
	disk_is_memory = 1;
	return 0;
}

/* From the top down; the image itself is the lowest. */
static int add_lower(char *list, size_t size_bytes, const char *path)
{
	size_t length = strlen(list);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (snprintf(list + length, size_bytes - length, "%s%s", length > 0 ? ":" : "", path) >= (int)(size_bytes - length)) {
		close(fd);
		return -E2BIG;
	}
	layers.lower_fds[layers.lower_count++] = fd;
	return 0;
}

static int list_lower(char *list, size_t size_bytes, unsigned layer_count)
{
	char path[64];

	list[0] = '\0';
	for (unsigned i = layer_count; i > 0; i--) {
		int result;

		snprintf(path, sizeof(path), VIAL_ROOTFS_LAYERS "/%u", i - 1);
		result = add_lower(list, size_bytes, path);
		if (result < 0)
			return result;
	}
	return add_lower(list, size_bytes, "/");
}

static int make_overlay(const char *base, unsigned layer_count)
{
	char lower[VIAL_ROOTFS_MAX_LAYERS * 32], options[sizeof(lower) + 256], path[128];
	int result = list_lower(lower, sizeof(lower), layer_count);

	for (int i = 0; i < 3 && result == 0; i++) {
		static const char *const names[] = { "upper", "work", "root" };

		snprintf(path, sizeof(path), "%s/%s", base, names[i]);
		if (mkdir(path, 0755) < 0)
			result = -errno;
	}
	if (result < 0)
		return result;
	disk_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	layers.upper_fd = openat(disk_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, base, base);
	return mount("overlay", path, "overlay", MS_NODEV, options) < 0 ? -errno : 0;
}

static int pivot(const char *new_root)
{
	if (chdir(new_root) < 0)
		return -errno;
	/* With both arguments the same, the old root ends up under the new one and one unmount uncovers it. */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return -errno;
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return 0;
}

static int enter_disk(const struct vial_rootfs_options *wanted, const char **out_step)
{
	static const char *const carried[] = { "/proc", "/sys", "/opt/vial" };
	const char *base = find_mount_point();
	char new_root[128];
	int result = base ? 0 : -ENOENT;

	*out_step = "make the disk";
	if (result == 0)
		result = mount_disk(base, wanted->disk_mb);
	if (result == 0)
		result = make_overlay(base, wanted->layer_count);
	if (result < 0)
		return result;
	snprintf(new_root, sizeof(new_root), "%s/root", base);
	*out_step = "carry the mounts over";
	for (size_t i = 0; i < sizeof(carried) / sizeof(*carried) && result == 0; i++)
		result = carry_over(new_root, carried[i]);
	if (result < 0)
		return result;
	*out_step = "enter the disk";
	return pivot(new_root);
}

static int make_devices(void)
{
	static const struct {
		const char *path;
		unsigned major, minor;
	} devices[] = {
		{ "/dev/null", 1, 3 },   { "/dev/zero", 1, 5 },    { "/dev/full", 1, 7 },
		{ "/dev/random", 1, 8 }, { "/dev/urandom", 1, 9 }, { "/dev/tty", 5, 0 },
	};

	for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
		if (mknod(devices[i].path, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor)) < 0 || chmod(devices[i].path, 0666) < 0)
			return -errno;
	}
	return 0;
}

/* What is missing from /dev: all of it on a fresh disk, little where the kernel brings its own. */
static int make_dev(bool is_fresh)
{
	struct stat info;

	if (is_fresh) {
		int result = mount("dev", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, DEV_OPTIONS) < 0 ? -errno : make_devices();

		if (result < 0)
			return result;
	}
	mkdir("/dev/pts", 0755);
	mkdir("/dev/shm", 01777);
	if (stat("/dev/pts/ptmx", &info) < 0 &&
	    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5") < 0 &&
	    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, NULL) < 0)
		return -errno;
	/* gVisor takes the mode that is meant for terminals for the folder's own: without this only root finds or opens one. */
	if (chmod("/dev/pts", 0755) < 0)
		return -errno;
	if (lstat("/dev/ptmx", &info) < 0 && symlink("pts/ptmx", "/dev/ptmx") < 0)
		return -errno;
	if (lstat("/dev/fd", &info) < 0) {
		(void)!symlink("/proc/self/fd", "/dev/fd");
		(void)!symlink("/proc/self/fd/0", "/dev/stdin");
		(void)!symlink("/proc/self/fd/1", "/dev/stdout");
		(void)!symlink("/proc/self/fd/2", "/dev/stderr");
	}
	return mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, SHM_OPTIONS) < 0 ? -errno : 0;
}

void vial_rootfs_clear_shared_memory(void)
{
	umount2("/dev/shm", MNT_DETACH);
	mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, SHM_OPTIONS);
}

static void make_owned(const char *path, uid_t uid, gid_t gid)
{
	struct stat info;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return;
	/* Only what is new or still root's: an image may have its own ideas. */
	if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == 0 && uid != 0)
		(void)!lchown(path, uid, gid);
}

static void make_directories(void)
{
	struct vial_user user;
	bool has_user = vial_user_find(NULL, &user) == 0;

	if (!has_user)
		user = (struct vial_user){ .uid = FALLBACK_UID, .gid = FALLBACK_UID, .home = "/home/user" };
	if (mkdir("/tmp", 01777) == 0)
		chmod("/tmp", 01777);
	make_owned("/workspace", user.uid, user.gid);
	make_owned(user.home, user.uid, user.gid);
}

static void adopt_layers(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		int fd = VIAL_ROOTFS_LAYER_FDS + (int)i;

		fcntl(fd, F_SETFD, FD_CLOEXEC);
		if (i == 0)
			layers.upper_fd = fd;
		else
			layers.lower_fds[layers.lower_count++] = fd;
	}
}

int vial_rootfs_init(const struct vial_rootfs_options *wanted, const char **out_step)
{
	bool is_fresh = wanted->disk_mb > 0;
	int result = 0;

	*out_step = "mount /proc";
	if (access("/proc/self", F_OK) < 0 && mount("proc", "/proc", "proc", 0, NULL) < 0)
		return -errno;
	if (wanted->layer_count > VIAL_ROOTFS_MAX_LAYERS || wanted->fd_count > VIAL_ROOTFS_MAX_LAYERS + 2)
		return -E2BIG;
	adopt_layers(wanted->fd_count);
	if (is_fresh)
		result = enter_disk(wanted, out_step);
	if (result < 0)
		return result;
	if (disk_fd < 0)
		disk_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*out_step = "make /dev";
	result = make_dev(is_fresh);
	if (result == 0)
		make_directories();
	return result;
}

const struct vial_rootfs_layers *vial_rootfs_layers(void)
{
	return layers.upper_fd >= 0 ? &layers : NULL;
}

void vial_rootfs_disk(uint64_t *out_used_kb, uint64_t *out_total_kb)
{
	struct statvfs info;

	*out_used_kb = *out_total_kb = 0;
	if (disk_fd < 0 || fstatvfs(disk_fd, &info) < 0)
		return;
	*out_total_kb = (uint64_t)info.f_blocks * info.f_frsize / 1024;
	*out_used_kb = (uint64_t)(info.f_blocks - info.f_bfree) * info.f_frsize / 1024;
}

int vial_rootfs_disk_is_memory(void)
{
	return disk_is_memory;
}
