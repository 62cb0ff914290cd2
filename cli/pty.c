/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session: stdin → binary messages, binary messages → stdout, SIGWINCH → a resize message. In raw mode Ctrl-C is a byte like
 * any other and reaches the guest; the way out of a session that hangs is ssh's: Enter, then "~.".
 */
#include "cli/pty.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/websocket.h"

enum {
	DEFAULT_ROWS = 24,
	DEFAULT_COLUMNS = 80,          /* when there is no terminal to ask */
	QUEUE_HIGH_BYTES = 256 * 1024, /* above it stdin is left alone until the network has caught up */
	PING_AFTER_US = 20 * 1000 * 1000,
	DEAD_AFTER_US = 60 * 1000 * 1000,
	GOODBYE_US = 2 * 1000 * 1000,
};

typedef struct {
	VialCli *cli;
	VialWebsocket *websocket;
	gboolean is_terminal; /* stdin is one, and raw */
	gboolean has_input;   /* stdin has not ended */
	gboolean has_exit;
	gint64 exit_code;
	gboolean has_left; /* the user's "~." */
	char escape;       /* what the last typed byte was: '\r' (a line begins), '~' after that, or 0 */
	gint64 pinged_us;
} Session;

static gboolean on_binary(const void *bytes, gsize size, gpointer data, GError **error)
{
	return vial_output_write_all(STDOUT_FILENO, bytes, size, error);
}

static gboolean on_text(const char *text, gsize size, gpointer data, GError **error)
{
	Session *session = data;
	g_autoptr(json_t) message = json_loadb(text, size, 0, NULL);
	const char *type = vial_api_string(message, "type");
	if (g_strcmp0(type, "exit") == 0) {
		session->exit_code = vial_api_integer(message, "exit_code", 0);
		session->has_exit = TRUE;
	} else if (g_strcmp0(type, "error") == 0) {
		const char *sentence = vial_api_string(message, "error");
		g_autofree char *clean = vial_sanitize_line(sentence ? sentence : "the terminal ended without saying why");
		g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, clean);
		return FALSE;
	} /* other types are of later versions */
	return TRUE;
}

static void send_size(Session *session)
{
	int rows, columns;
	if (!vial_terminal_size(&rows, &columns))
		return;
	g_autofree char *text = g_strdup_printf("{\"type\":\"resize\",\"rows\":%d,\"cols\":%d}", rows, columns);
	vial_websocket_send_text(session->websocket, text);
}

/* Watches typed bytes for Enter ~ . and sends the rest. "~~" after Enter is one "~". */
static void send_typed(Session *session, const char *bytes, gsize size)
{
	g_autoptr(GByteArray) out = g_byte_array_sized_new((guint)size + 1);
	for (gsize i = 0; i < size && !session->has_left; i++) {
		char byte = bytes[i];
		if (session->escape == '~') {
			session->escape = 0;
			if (byte == '.') {
				session->has_left = TRUE;
				break;
			}
			g_byte_array_append(out, (const guint8 *)"~", 1);
			if (byte == '~')
				continue;
		} else if (session->escape == '\r' && byte == '~') {
			session->escape = '~';
			continue;
		}
		g_byte_array_append(out, (const guint8 *)&byte, 1);
		session->escape = byte == '\r' || byte == '\n' ? '\r' : 0;
	}
	if (out->len)
		vial_websocket_send_binary(session->websocket, out->data, out->len);
}

static void read_input(Session *session)
{
	char buffer[16 * 1024];
	ssize_t size = read(STDIN_FILENO, buffer, sizeof buffer);
	if (size > 0 && session->is_terminal)
		send_typed(session, buffer, (gsize)size);
	else if (size > 0)
		vial_websocket_send_binary(session->websocket, buffer, (gsize)size);
	else if (size == 0 || (errno != EINTR && errno != EAGAIN)) {
		session->has_input = FALSE;
		if (!session->is_terminal)
			vial_websocket_send_binary(session->websocket, "\004", 1); /* a pty's way of saying end of input */
		else
			session->has_left = TRUE; /* our terminal is gone */
	}
}

static gboolean keep_alive(Session *session, GError **error)
{
	gint64 now_us = g_get_monotonic_time();
	gint64 silent_us = now_us - vial_websocket_heard_us(session->websocket);
	if (silent_us > DEAD_AFTER_US) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the connection to %s is dead", session->cli->url);
		return FALSE;
	}
	if (silent_us > PING_AFTER_US && now_us - session->pinged_us > PING_AFTER_US) {
		session->pinged_us = now_us;
		vial_websocket_ping(session->websocket);
	}
	return TRUE;
}

static gboolean step(Session *session, GError **error)
{
	VialWebsocket *websocket = session->websocket;
	gboolean wants_input = session->has_input && vial_websocket_queued_bytes(websocket) < QUEUE_HIGH_BYTES;
	struct pollfd fds[] = {
		{ .fd = vial_websocket_fd(websocket), .events = POLLIN | (vial_websocket_wants_write(websocket) ? POLLOUT : 0) },
		{ .fd = wants_input ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = vial_terminal_resize_fd(), .events = POLLIN },
		{ .fd = vial_interrupt_fd(), .events = POLLIN },
	};
	if (poll(fds, G_N_ELEMENTS(fds), 1000) < 0 && errno != EINTR) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "waiting failed: %s", g_strerror(errno));
		return FALSE;
	}
	if (vial_interrupt_pending()) {
		g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED, "interrupted");
		return FALSE;
	}
	if (fds[0].revents && !vial_websocket_read(websocket, error))
		return session->has_exit ? (g_clear_error(error), TRUE) : FALSE; /* gone after the last word is no failure */
	if (fds[1].revents)
		read_input(session);
	if (vial_terminal_take_resize())
		send_size(session);
	return keep_alive(session, error) && vial_websocket_flush(websocket, error);
}

static void say_goodbye(Session *session)
{
	gint64 until_us = g_get_monotonic_time() + GOODBYE_US;
	vial_websocket_close(session->websocket);
	while (vial_websocket_wants_write(session->websocket) && g_get_monotonic_time() < until_us) {
		struct pollfd wait = { .fd = vial_websocket_fd(session->websocket), .events = POLLOUT };
		poll(&wait, 1, 100);
		if (!vial_websocket_flush(session->websocket, NULL))
			return;
	}
}

static int finish(Session *session, GError *error)
{
	vial_terminal_restore();
	if (session->has_exit) {
		g_clear_error(&error);
		return (int)CLAMP(session->exit_code, 0, 255);
	}
	if (session->is_terminal)
		vial_terminal_reset_modes();
	if (error) {
		if (session->is_terminal)
			fputs("\r\n", stderr);
		return vial_output_fail_remote(session->cli, error);
	}
	if (session->has_left) {
		vial_output_note(session->cli, "left the terminal");
		return VIAL_EXIT_INTERRUPTED;
	}
	return vial_output_fail_remote(session->cli,
	                               g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the terminal was closed before its command ended"));
}

static char *session_path(const char *sandbox_id, const VialPtyOptions *options)
{
	int rows = DEFAULT_ROWS, columns = DEFAULT_COLUMNS;
	vial_terminal_size(&rows, &columns);
	GString *path = g_string_new(NULL);
	g_autofree char *start = vial_api_path("/sandboxes/%s/pty?rows=%d&cols=%d", sandbox_id, rows, columns);
	g_string_append(path, start);
	const char *const pairs[][2] = { { "cmd", options->cmd }, { "cwd", options->cwd }, { "user", options->user } };
	for (gsize i = 0; i < G_N_ELEMENTS(pairs); i++) {
		if (!pairs[i][1])
			continue;
		g_string_append_printf(path, "&%s=", pairs[i][0]);
		g_string_append_uri_escaped(path, pairs[i][1], NULL, FALSE);
	}
	return g_string_free(path, FALSE);
}

int vial_pty_run(VialCli *cli, const char *sandbox_id, const VialPtyOptions *options)
{
	static const VialWebsocketHandlers handlers = { .on_binary = on_binary, .on_text = on_text };
	Session session = { .cli = cli, .has_input = TRUE, .escape = '\r' };
	GError *error = NULL;
	g_autofree char *path = session_path(sandbox_id, options);
	vial_terminal_resize_fd(); /* watches from here on: a resize during the connect is not lost */
	g_autoptr(VialWebsocket) websocket = vial_websocket_open(cli->http, path, &handlers, &session, &error);
	if (!websocket)
		return vial_output_fail_remote(cli, error);
	session.websocket = websocket;
	session.is_terminal = vial_terminal_raw();

	/* Frames may have come together with the upgrade's answer: no poll would tell of them. */
	gboolean is_ok = vial_websocket_read(websocket, &error);
	while (is_ok && !session.has_exit && !session.has_left && !vial_websocket_is_closed(websocket))
		is_ok = step(&session, &error);
	if (is_ok)
		say_goodbye(&session);
	return finish(&session, error);
}
