/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second surface, for the tests: a line protocol on a unix socket. It is there to prove that a dialect is nothing but translation: it holds not one
 * rule, and what it refuses it refuses in the same words as the native API, because neither of them has any.
 *
 *   key KEY                          → ok PROJECT
 *   create [FIELD=VALUE…]            → ok ID                        template, ttl_seconds, memory_mb, env.NAME:VALUE, metadata.NAME:VALUE
 *   fork ID COUNT                    → ok ID…
 *   delete ID                        → ok
 *   run ID LENGTH [FIELD=VALUE…]     followed by LENGTH bytes of code                    language, context, timeout_ms, env.NAME:VALUE
 *   exec ID LENGTH [FIELD=VALUE…]    followed by LENGTH bytes of a shell line            cwd, user, timeout_seconds, env.NAME:VALUE
 *
 * run and exec answer with any number of `stdout LENGTH`, `stderr LENGTH`, `result LENGTH`, `error LENGTH`, each followed by so many bytes and a line
 * end, and then `end STATUS`. Whatever is refused or fails: `refused TYPE TEXT`. One command at a time; a client that leaves cancels its own.
 */
#include <errno.h>
#include <glib-unix.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon.h"
#include "line_connection.h"
#include "util/error.h"

typedef struct {
	VialApp *app;
	int fd;
	guint source;
} Listener;

static gboolean on_client(int fd, GIOCondition condition, gpointer data)
{
	Listener *listener = data;
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (client >= 0)
		vial_line_connection_new(listener->app, client);
	return G_SOURCE_CONTINUE;
}

static gpointer start(VialApp *app, gpointer data, GError **error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	Listener *listener;

	g_strlcpy(address.sun_path, data, sizeof(address.sun_path));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 8) < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot listen on %s: %s", address.sun_path, g_strerror(errno));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	listener = g_new0(Listener, 1);
	*listener = (Listener){ .app = app, .fd = fd };
	listener->source = g_unix_fd_add(fd, G_IO_IN, on_client, listener);
	return listener;
}

static void stop(gpointer data)
{
	Listener *listener = data;

	g_source_remove(listener->source);
	close(listener->fd);
	g_free(listener);
}

/* viald with this surface more: viald's own options, and the socket's path in the environment. */
int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(VialConfig) config = vial_config_load(&argc, &argv, NULL, &error);
	VialSurface surface = { .start = start, .stop = stop, .data = (gpointer)g_getenv("VIAL_LINE_SOCKET") };

	if (!config || !surface.data) {
		g_printerr("viald-line: %s\n", error ? error->message : "VIAL_LINE_SOCKET is not set");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return vial_daemon_run(config, &surface);
}
