/* SPDX-License-Identifier: Apache-2.0 */
/* A self-pipe behind signal handlers. */
#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli/terminal.h"

enum { PATIENCE = 3 };

static int pipe_fds[2] = { -1, -1 };
static volatile sig_atomic_t pending, final_signal, last_signal, presses;

static void on_signal(int signal_number)
{
	int saved = errno;
	pending = 1;
	last_signal = signal_number;
	if (signal_number != SIGINT)
		final_signal = signal_number;
	else if (++presses >= PATIENCE) {
		vial_terminal_restore();
		_exit(128 + signal_number);
	}
	if (write(pipe_fds[1], "!", 1) < 0) { /* full: it is readable already */
	}
	errno = saved;
}

void vial_interrupt_install(void)
{
	if (pipe_fds[0] >= 0)
		return;
	if (!g_unix_open_pipe(pipe_fds, FD_CLOEXEC, NULL))
		return;
	g_unix_set_fd_nonblocking(pipe_fds[0], TRUE, NULL);
	g_unix_set_fd_nonblocking(pipe_fds[1], TRUE, NULL);
	struct sigaction action = { .sa_handler = on_signal }; /* no SA_RESTART: a blocked read ends with EINTR */
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	for (gsize i = 0; i < G_N_ELEMENTS(signals); i++) {
		struct sigaction old;
		/* What our parent ignores for us (nohup, a background job) stays ignored. */
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
	signal(SIGPIPE, SIG_IGN); /* a reader that left is seen as EPIPE, and cleaned up after */
}

int vial_interrupt_fd(void)
{
	return pipe_fds[0];
}

gboolean vial_interrupt_pending(void)
{
	return pending;
}

gboolean vial_interrupt_is_final(void)
{
	return final_signal != 0;
}

static void drain(void)
{
	char bytes[64];
	while (pipe_fds[0] >= 0 && read(pipe_fds[0], bytes, sizeof bytes) > 0)
		;
}

void vial_interrupt_take(void)
{
	if (final_signal)
		return;
	pending = 0;
	presses = 0;
	last_signal = 0;
	drain();
}

void vial_interrupt_clear(void)
{
	pending = 0;
	final_signal = 0;
	presses = 0;
	drain();
}

int vial_interrupt_exit_status(int otherwise)
{
	return last_signal ? 128 + last_signal : otherwise;
}

gboolean vial_interrupt_sleep_ms(int milliseconds)
{
	struct pollfd wait = { .fd = pipe_fds[0], .events = POLLIN };
	if (!pending)
		poll(&wait, 1, milliseconds);
	return !pending;
}
