/* SPDX-License-Identifier: Apache-2.0 */
#include "net/lowfd.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

/* One for each network that may be there at once, and then some; the rest of the low numbers is for whatever was opened before us. */
#define RESERVED 900
/* Somebody else may get the number between our letting go of it and the socket. */
#define TRIES 8

static GMutex lock;
static int reserved[RESERVED];
static guint n_reserved;

/* Takes the lowest free numbers, as many as there are. With the lock held. */
static void reserve(void)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	while (null_fd >= 0 && n_reserved < RESERVED) {
		int fd = fcntl(null_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

		if (fd < 0 || fd >= FD_SETSIZE) {
			if (fd >= 0)
				close(fd);
			break;
		}
		reserved[n_reserved++] = fd;
	}
	if (null_fd >= 0)
		close(null_fd);
}

static int socket_option(int fd, int option)
{
	int value = -1;
	socklen_t size = sizeof value;

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/*
 * Not any netlink socket: other workers open theirs at the same time, and one of those may have got the number. Ours are all closed on exec, the
 * library's is not.
 */
static gboolean is_nftables(int fd)
{
	return socket_option(fd, SO_DOMAIN) == AF_NETLINK && socket_option(fd, SO_PROTOCOL) == NETLINK_NETFILTER && fcntl(fd, F_GETFD) == 0;
}

/* The number that the next descriptor will have, a low one, or -1. */
static int next_number(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	if (fd >= 0 && fd < FD_SETSIZE)
		return fd;
	if (n_reserved == 0)
		return -1;
	fd = reserved[--n_reserved];
	close(fd);
	return fd;
}

gboolean vial_lowfd_open(gboolean (*open_socket)(gpointer data), void (*close_socket)(gpointer data), gpointer data)
{
	gboolean is_open = FALSE;

	g_mutex_lock(&lock);
	reserve();
	for (guint i = 0; i < TRIES && !is_open; i++) {
		int fd = next_number();

		if (fd < 0 || !open_socket(data))
			break;
		is_open = is_nftables(fd);
		if (is_open)
			fcntl(fd, F_SETFD, FD_CLOEXEC); /* no host process of a sandbox is to have it */
		else
			close_socket(data);
	}
	g_mutex_unlock(&lock);
	return is_open;
}

void vial_lowfd_closed(void)
{
	g_mutex_lock(&lock);
	reserve();
	g_mutex_unlock(&lock);
}
