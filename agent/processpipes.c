/* SPDX-License-Identifier: Apache-2.0 */
#include "processpipes.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "pty.h"
#include "users.h"
#include "wire/wire.h"

static int make_pipe(int *out_read, int *out_write)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*out_read = ends[0];
	*out_write = ends[1];
	return 0;
}

/* A pipe that is new has no other flags. */
static int set_nonblocking(int fd)
{
	return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* Made as the user: whoever makes a pipe owns it, and only the owner may open it again as /dev/stdout. */
static int make_pipes(struct vial_process_run *run, const struct vial_user *user, bool has_stdin, int fds[3])
{
	int result = vial_user_enter(user);

	if (result < 0)
		return result;
	result = make_pipe(&run->outputs[0].fd, &fds[1]);
	if (result == 0)
		result = make_pipe(&run->outputs[1].fd, &fds[2]);
	if (result == 0 && has_stdin)
		result = make_pipe(&fds[0], &run->input.fd);
	vial_user_leave();
	if (result == 0)
		result = set_nonblocking(run->outputs[0].fd);
	if (result == 0)
		result = set_nonblocking(run->outputs[1].fd);
	if (result == 0 && has_stdin)
		result = set_nonblocking(run->input.fd);
	run->outputs[0].channel = VIAL_WIRE_STDOUT;
	run->outputs[1].channel = VIAL_WIRE_STDERR;
	return result;
}

static int make_pty(struct vial_process_run *run, const struct vial_process_options *options, int fds[3])
{
	int slave, result = vial_pty_open(options->rows, options->columns, options->user, &run->outputs[0].fd, &slave);

	if (result < 0)
		return result;
	fds[0] = slave;
	run->outputs[0].channel = VIAL_WIRE_MAIN;
	run->is_pty = true;
	/* A descriptor of its own for the other direction, so that each side has one watch and one close. */
	run->input.fd = fcntl(run->outputs[0].fd, F_DUPFD_CLOEXEC, 3);
	fds[1] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	fds[2] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	return run->input.fd < 0 || fds[1] < 0 || fds[2] < 0 ? -errno : 0;
}

int vial_process_pipes_open(struct vial_process_run *run, const struct vial_process_options *options, int fds[3])
{
	return options->is_pty ? make_pty(run, options, fds) : make_pipes(run, options->user, options->has_stdin, fds);
}
