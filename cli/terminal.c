/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios normal_mode;
static volatile sig_atomic_t is_guarded, has_resized;
static int resize_pipe[2] = { -1, -1 };

gboolean vial_terminal_size(int *out_rows, int *out_columns)
{
	static const int fds[] = { STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO };
	for (gsize i = 0; i < G_N_ELEMENTS(fds); i++) {
		struct winsize size;
		if (ioctl(fds[i], TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
			*out_rows = size.ws_row;
			*out_columns = size.ws_col;
			return TRUE;
		}
	}
	return FALSE;
}

void vial_terminal_restore(void)
{
	if (!is_guarded)
		return;
	is_guarded = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &normal_mode);
}

static void on_crash(int signal_number)
{
	vial_terminal_restore();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

/* `kill -TSTP`: leave the terminal usable while stopped, take it again afterwards. */
static void on_stop(int signal_number)
{
	int saved = errno;
	struct termios special_mode;
	gboolean takes_again = is_guarded && tcgetattr(STDIN_FILENO, &special_mode) == 0;
	vial_terminal_restore();
	raise(SIGSTOP);
	if (takes_again) {
		tcsetattr(STDIN_FILENO, TCSADRAIN, &special_mode);
		is_guarded = 1;
	}
	errno = saved;
}

static void on_resize(int signal_number)
{
	int saved = errno;
	has_resized = 1;
	if (write(resize_pipe[1], "!", 1) < 0) { /* full: it is readable already */
	}
	errno = saved;
}

static void handle(int signal_number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	sigaction(signal_number, &action, NULL);
}

gboolean vial_terminal_guard(void)
{
	if (is_guarded)
		return TRUE;
	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &normal_mode) != 0)
		return FALSE;
	static gboolean is_installed;
	if (!is_installed) {
		is_installed = TRUE;
		atexit(vial_terminal_restore);
		handle(SIGTSTP, on_stop, SA_RESTART);
		static const int crashes[] = { SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT };
		for (gsize i = 0; i < G_N_ELEMENTS(crashes); i++)
			handle(crashes[i], on_crash, 0);
	}
	is_guarded = 1;
	return TRUE;
}

gboolean vial_terminal_raw(void)
{
	if (!vial_terminal_guard())
		return FALSE;
	struct termios raw_mode = normal_mode;
	cfmakeraw(&raw_mode);
	return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw_mode) == 0;
}

int vial_terminal_resize_fd(void)
{
	if (resize_pipe[0] < 0 && g_unix_open_pipe(resize_pipe, FD_CLOEXEC, NULL)) {
		g_unix_set_fd_nonblocking(resize_pipe[0], TRUE, NULL);
		g_unix_set_fd_nonblocking(resize_pipe[1], TRUE, NULL);
		handle(SIGWINCH, on_resize, SA_RESTART);
	}
	return resize_pipe[0];
}

gboolean vial_terminal_take_resize(void)
{
	char bytes[64];
	while (read(resize_pipe[0], bytes, sizeof bytes) > 0)
		;
	gboolean resized = has_resized;
	has_resized = 0;
	return resized;
}

void vial_terminal_reset_modes(void)
{
	static const char modes[] = "\033[?1049l\033[?25h\033[?1000l\033[?1002l\033[?1003l\033[?1006l\033[?2004l\033[?1l\033>\033[0m";
	if (isatty(STDOUT_FILENO) && write(STDOUT_FILENO, modes, sizeof modes - 1) < 0) { /* nothing more can be done */
	}
}
