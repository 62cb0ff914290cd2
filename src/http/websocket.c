/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wslay does the framing; this file gives it a socket, the main loop and limits. wslay calls back into `message` from
 * inside its receive function, so nothing is freed while `depth` is above zero.
 */
#include "http/websocket.h"

#include <errno.h>
#include <glib-unix.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#include "http/websocket_handshake.h"
#include "util/log.h"

/* Bytes read per turn of the main loop, so that one flooding peer does not starve the others. */
#define READ_BUDGET_BYTES (256 * 1024)

/* A control frame holds 125 bytes, two of them the code. */
#define CLOSE_REASON_BYTES 123

struct VialWebSocket {
	const VialWebSocketHandlers *handlers;
	gpointer data;
	VialUpgraded *upgraded;
	wslay_event_context_ptr wslay;
	int fd;
	guint source_id;
	GIOCondition condition; /* what source_id waits for */
	guint ping_id;
	guint close_id;
	GBytes *extra; /* arrived together with the request */
	gsize extra_offset;
	gsize budget_bytes;
	int depth;
	gint64 heard_us;
	gboolean is_reading;
	gboolean is_closing;
	gboolean is_close_queued;
	unsigned close_code;
	char close_reason[CLOSE_REASON_BYTES + 1];
	gboolean is_lost; /* the socket is of no more use */
	gboolean was_high;
};

static void pump(VialWebSocket *socket);

static void finish(VialWebSocket *socket)
{
	unsigned code = WSLAY_CODE_ABNORMAL_CLOSURE;

	if (socket->wslay && wslay_event_get_close_received(socket->wslay))
		code = wslay_event_get_status_code_received(socket->wslay);
	if (socket->source_id)
		g_source_remove(socket->source_id);
	if (socket->ping_id)
		g_source_remove(socket->ping_id);
	if (socket->close_id)
		g_source_remove(socket->close_id);
	socket->depth++; /* a send from inside `closed` must not come back here */
	socket->is_lost = TRUE;
	if (socket->handlers->closed)
		socket->handlers->closed(socket, code, socket->data);
	if (socket->wslay)
		wslay_event_context_free(socket->wslay);
	vial_upgraded_close(socket->upgraded);
	g_clear_pointer(&socket->extra, g_bytes_unref);
	g_free(socket);
}

/* ---- wslay's callbacks ---- */

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *buffer, size_t size, int flags, void *data)
{
	VialWebSocket *ws = data;

	if (ws->extra) {
		gsize total;
		const guint8 *bytes = g_bytes_get_data(ws->extra, &total);
		gsize n = MIN(size, total - ws->extra_offset);
		memcpy(buffer, bytes + ws->extra_offset, n);
		ws->extra_offset += n;
		if (ws->extra_offset == total)
			g_clear_pointer(&ws->extra, g_bytes_unref);
		if (n > 0)
			return (ssize_t)n;
	}
	if (ws->budget_bytes == 0) {
		wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	ssize_t n;
	do
		n = recv(ws->fd, buffer, MIN(size, ws->budget_bytes), 0);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		ws->budget_bytes -= (gsize)n;
		ws->heard_us = g_get_monotonic_time();
		return n;
	}
	wslay_event_set_error(wslay, n < 0 && errno == EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *bytes, size_t size, int flags, void *data)
{
	VialWebSocket *ws = data;
	ssize_t n;

	do
		n = send(ws->fd, bytes, size, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		wslay_event_set_error(wslay, errno == EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
	return n;
}

static void on_message(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *message, void *data)
{
	VialWebSocket *ws = data;

	/* wslay answers pings and close frames itself. */
	if (!wslay_is_ctrl_frame(message->opcode) && !ws->is_closing)
		ws->handlers->message(ws, message->opcode == WSLAY_TEXT_FRAME, message->msg, message->msg_length, ws->data);
}

/* ---- the main loop ---- */

static gboolean on_ready(int fd, GIOCondition condition, gpointer data)
{
	pump(data);
	return G_SOURCE_CONTINUE;
}

static void wait_for(VialWebSocket *ws, GIOCondition condition)
{
	if (ws->condition == condition && ws->source_id)
		return;
	if (ws->source_id)
		g_source_remove(ws->source_id);
	ws->condition = condition;
	/* Errors and hang-ups are always reported. */
	ws->source_id = g_unix_fd_add(ws->fd, condition, on_ready, ws);
}

static void tell_producer(VialWebSocket *ws)
{
	if (!ws->was_high || wslay_event_get_queued_msg_length(ws->wslay) >= VIAL_BODY_LOW_BYTES || ws->is_closing)
		return;
	ws->was_high = FALSE;
	if (ws->handlers->drained)
		ws->handlers->drained(ws, ws->data);
}

static gboolean give_up_closing(gpointer data)
{
	VialWebSocket *ws = data;

	ws->close_id = 0;
	finish(ws);
	return G_SOURCE_REMOVE;
}

/* wslay sends control frames first, and nothing after a close: it may be queued only when everything else is out. */
static void queue_close(VialWebSocket *ws)
{
	if (!ws->is_closing || ws->is_close_queued || wslay_event_get_queued_msg_count(ws->wslay) > 0)
		return;
	ws->is_close_queued = TRUE;
	wslay_event_queue_close(ws->wslay, (uint16_t)ws->close_code, (const uint8_t *)ws->close_reason, strlen(ws->close_reason));
	ws->close_id = g_timeout_add_seconds(VIAL_WEBSOCKET_CLOSE_SECONDS, give_up_closing, ws);
}

static gboolean peer_hung_up(const VialWebSocket *ws)
{
	struct pollfd poll_fd = { .fd = ws->fd, .events = POLLRDHUP };

	return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

/* Moves what can be moved in both directions, and ends the socket when it is over. */
static void pump(VialWebSocket *ws)
{
	if (ws->depth > 0)
		return;
	ws->depth++;
	ws->budget_bytes = READ_BUDGET_BYTES;
	gboolean wants_read = wslay_event_want_read(ws->wslay) && (ws->is_reading || ws->is_closing);
	if (wants_read)
		ws->is_lost = ws->is_lost || wslay_event_recv(ws->wslay) != 0;
	else
		ws->is_lost = ws->is_lost || peer_hung_up(ws);
	do {
		queue_close(ws);
		ws->is_lost = ws->is_lost || (wslay_event_want_write(ws->wslay) && wslay_event_send(ws->wslay) != 0);
		if (!ws->is_lost)
			tell_producer(ws); /* may queue more */
	} while (!ws->is_lost && ((ws->was_high && !ws->is_closing && wslay_event_get_queued_msg_length(ws->wslay) < VIAL_BODY_LOW_BYTES) ||
	                          (ws->is_closing && !ws->is_close_queued && wslay_event_get_queued_msg_count(ws->wslay) == 0)));
	/* Pings that are never read back would otherwise pile up as pongs. */
	if (wslay_event_get_queued_msg_count(ws->wslay) > VIAL_WEBSOCKET_QUEUE_LIMIT_MESSAGES)
		ws->is_lost = TRUE;
	ws->depth--;

	wants_read = wslay_event_want_read(ws->wslay) && (ws->is_reading || ws->is_closing);
	gboolean wants_write = wslay_event_want_write(ws->wslay);
	if (ws->is_lost || (!wslay_event_want_read(ws->wslay) && !wants_write))
		finish(ws);
	else
		wait_for(ws, (wants_read ? G_IO_IN : 0) | (wants_write ? G_IO_OUT : 0));
}

static gboolean keep_alive(gpointer data)
{
	VialWebSocket *ws = data;
	gint64 silent_us = g_get_monotonic_time() - ws->heard_us;
	struct wslay_event_msg ping = { .opcode = WSLAY_PING };

	if (!ws->is_reading && !ws->is_closing) /* we would not hear it */
		return G_SOURCE_CONTINUE;
	if (silent_us > 2 * VIAL_WEBSOCKET_PING_SECONDS * G_USEC_PER_SEC) {
		ws->ping_id = 0;
		finish(ws);
		return G_SOURCE_REMOVE;
	}
	if (silent_us > VIAL_WEBSOCKET_PING_SECONDS * G_USEC_PER_SEC / 2) {
		wslay_event_queue_msg(ws->wslay, &ping);
		pump(ws);
	}
	return G_SOURCE_CONTINUE;
}

/* ---- opening ---- */

static void on_upgraded(VialUpgraded *upgraded, int fd, GBytes *extra, gpointer data)
{
	static const struct wslay_event_callbacks callbacks = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.on_msg_recv_callback = on_message,
	};
	VialWebSocket *ws = data;

	ws->upgraded = upgraded;
	ws->fd = fd;
	ws->heard_us = g_get_monotonic_time();
	if (g_bytes_get_size(extra) > 0)
		ws->extra = g_bytes_ref(extra);
	g_bytes_unref(extra);
	if (wslay_event_context_server_init(&ws->wslay, &callbacks, ws) != 0) {
		ws->wslay = NULL;
		finish(ws);
		return;
	}
	wslay_event_config_set_max_recv_msg_length(ws->wslay, VIAL_WEBSOCKET_MAX_MESSAGE_BYTES);
	ws->ping_id = g_timeout_add_seconds(VIAL_WEBSOCKET_PING_SECONDS, keep_alive, ws);
	ws->depth++;
	if (ws->handlers->opened)
		ws->handlers->opened(ws, ws->data);
	ws->depth--;
	/* The peer may have sent frames along with its request; afterwards the poll takes over. */
	pump(ws);
}

static void on_gone(VialRequest *request, gpointer data)
{
	finish(data);
}

gboolean vial_websocket_accept(VialRequest *request, const char *protocol, const VialWebSocketHandlers *handlers, gpointer data)
{
	g_autofree char *answer = NULL;
	GError *error = NULL;

	if (!vial_websocket_check_handshake(request, &answer, &error)) {
		vial_request_set_header(request, "Sec-WebSocket-Version", "13");
		vial_request_reply_error(request, error);
		return FALSE;
	}
	VialWebSocket *ws = g_new0(VialWebSocket, 1);
	ws->handlers = handlers;
	ws->data = data;
	ws->fd = -1;
	ws->is_reading = TRUE;
	const char *headers[] = {
		"Upgrade", "websocket", "Sec-WebSocket-Accept", answer, protocol ? "Sec-WebSocket-Protocol" : NULL, protocol, NULL,
	};
	vial_request_on_gone(request, on_gone, ws);
	vial_request_upgrade(request, headers, on_upgraded, ws);
	return TRUE;
}

/* ---- use ---- */

gsize vial_websocket_send(VialWebSocket *ws, gboolean is_text, const void *bytes, gsize size)
{
	struct wslay_event_msg message = {
		.opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
		.msg = bytes,
		.msg_length = size,
	};

	if (!ws->wslay || ws->is_closing || ws->is_lost)
		return 0;
	if (wslay_event_queue_msg(ws->wslay, &message) != 0)
		return 0; /* the peer has sent its close already */
	gsize queued = wslay_event_get_queued_msg_length(ws->wslay);
	if (queued > VIAL_BODY_HIGH_BYTES)
		ws->was_high = TRUE;
	if (queued > VIAL_WEBSOCKET_QUEUE_LIMIT_BYTES) {
		vial_log_warning("http", "a WebSocket peer does not read and was dropped");
		ws->is_lost = TRUE;
	}
	/* Not pump(): that may free the socket under our caller. What cannot be sent now goes when the poll says so. */
	if (ws->depth == 0 && !ws->is_lost && wslay_event_send(ws->wslay) != 0)
		ws->is_lost = TRUE;
	if (ws->depth == 0)
		wait_for(ws, (ws->is_reading ? G_IO_IN : 0) | (ws->is_lost || wslay_event_want_write(ws->wslay) ? G_IO_OUT : 0));
	if (ws->is_lost)
		shutdown(ws->fd, SHUT_RDWR); /* makes the poll fire, and pump() end it */
	return wslay_event_get_queued_msg_length(ws->wslay);
}

void vial_websocket_set_reading(VialWebSocket *ws, gboolean is_reading)
{
	if (ws->is_reading == is_reading)
		return;
	ws->is_reading = is_reading;
	if (!ws->wslay || ws->is_lost || ws->depth > 0)
		return;
	/* Something may be left in `extra` that no poll would announce: one turn through the loop finds out. */
	wait_for(ws, (is_reading ? G_IO_IN : 0) | (ws->extra || wslay_event_want_write(ws->wslay) ? G_IO_OUT : 0));
}

void vial_websocket_close(VialWebSocket *ws, unsigned code, const char *reason)
{
	if (!ws->wslay || ws->is_closing || ws->is_lost)
		return;
	ws->is_closing = TRUE;
	ws->close_code = code;
	g_strlcpy(ws->close_reason, reason ? reason : "", sizeof(ws->close_reason));
	if (ws->depth > 0)
		return; /* pump() goes on with it */
	queue_close(ws);
	wait_for(ws, G_IO_IN | G_IO_OUT);
}
