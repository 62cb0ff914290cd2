/* SPDX-License-Identifier: Apache-2.0 */
#include "net/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/fd.h"

static int home_fd = -1;

/* What ip(8) does: the directory is a shared mount, so that a name removed here goes away in every mount namespace. */
static gboolean share_directory(GError **error)
{
	if (mkdir(VIAL_NETNS_DIR, 0755) < 0 && errno != EEXIST)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot make %s: %s", VIAL_NETNS_DIR, g_strerror(errno));
	if (mount("", VIAL_NETNS_DIR, "none", MS_SHARED | MS_REC, NULL) == 0)
		return TRUE;
	if (errno != EINVAL || mount(VIAL_NETNS_DIR, VIAL_NETNS_DIR, "none", MS_BIND | MS_REC, NULL) < 0 ||
	    mount("", VIAL_NETNS_DIR, "none", MS_SHARED | MS_REC, NULL) < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot share %s: %s", VIAL_NETNS_DIR, g_strerror(errno));
	return TRUE;
}

gboolean vial_netns_init(GError **error)
{
	if (home_fd < 0)
		home_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home_fd < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open our network namespace: %s", g_strerror(errno));
	return share_directory(error);
}

int vial_netns_home(void)
{
	return home_fd;
}

static char *path_of(const char *name)
{
	return g_build_filename(VIAL_NETNS_DIR, name, NULL);
}

int vial_netns_create(const char *name, GError **error)
{
	g_autofree char *path = path_of(name);
	vial_autofd int file = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
	int ns_fd = -1;
	int saved;

	if (file < 0) {
		vial_fail(error, errno == EEXIST ? VIAL_ERROR_CONFLICT : VIAL_ERROR_INTERNAL, "cannot make %s: %s", path, g_strerror(errno));
		return -1;
	}
	if (unshare(CLONE_NEWNET) < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot make a network namespace: %s", g_strerror(errno));
		unlink(path);
		return -1;
	}
	if (mount("/proc/thread-self/ns/net", path, "none", MS_BIND, NULL) == 0)
		ns_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	saved = errno;
	vial_netns_leave();
	if (ns_fd < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot name a network namespace: %s", g_strerror(saved));
		vial_netns_remove(name, NULL);
	}
	return ns_fd;
}

int vial_netns_open(const char *name, GError **error)
{
	g_autofree char *path = path_of(name);
	vial_autofd int ns_fd = open(path, O_RDONLY | O_CLOEXEC);

	if (ns_fd < 0) {
		vial_fail(error, errno == ENOENT ? VIAL_ERROR_NOT_FOUND : VIAL_ERROR_INTERNAL, "cannot open %s: %s", path, g_strerror(errno));
		return -1;
	}
	return vial_fd_steal(&ns_fd);
}

gboolean vial_netns_remove(const char *name, GError **error)
{
	g_autofree char *path = path_of(name);

	if (umount2(path, MNT_DETACH) < 0 && errno != EINVAL && errno != ENOENT)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot unmount %s: %s", path, g_strerror(errno));
	if (unlink(path) < 0 && errno != ENOENT)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot remove %s: %s", path, g_strerror(errno));
	return TRUE;
}

gboolean vial_netns_enter(int ns_fd, GError **error)
{
	if (setns(ns_fd, CLONE_NEWNET) < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot enter a network namespace: %s", g_strerror(errno));
	return TRUE;
}

void vial_netns_leave(void)
{
	if (setns(home_fd, CLONE_NEWNET) < 0)
		g_error("cannot return to our network namespace: %s", g_strerror(errno));
}

int vial_netns_socket(int ns_fd, int domain, int type, int protocol, GError **error)
{
	int fd;
	int saved;

	if (!vial_netns_enter(ns_fd, error))
		return -1;
	fd = socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
	saved = errno;
	vial_netns_leave();
	if (fd < 0)
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open a socket in the sandbox's network: %s", g_strerror(saved));
	return fd;
}
