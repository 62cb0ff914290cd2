/* SPDX-License-Identifier: Apache-2.0 */
/* See pty.h. */
#include "pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TTY_GROUP 5

void vial_pty_resize(int master, unsigned short rows, unsigned short columns)
{
	struct winsize size = { .ws_row = rows, .ws_col = columns };

	ioctl(master, TIOCSWINSZ, &size);
}

int vial_pty_open(unsigned short rows, unsigned short columns, const struct vial_user *user, int *out_master, int *out_slave)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	int slave = -1, unlock = 0, number, result = 0;
	char path[32];

	if (master < 0)
		return -errno;
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCGPTN, &number) < 0) {
		result = -errno;
	} else {
		snprintf(path, sizeof(path), "/dev/pts/%d", number);
		slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (slave < 0)
			result = -errno;
	}
	if (result < 0) {
		close(master);
		return result;
	}
	/* So that programs of the user may open /dev/tty; not every kernel lets the owner change, and most programs do not care. */
	(void)!fchown(slave, user->uid, TTY_GROUP);
	vial_pty_resize(master, rows, columns);
	*out_master = master;
	*out_slave = slave;
	return 0;
}
