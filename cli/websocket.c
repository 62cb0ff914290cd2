/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/websocket.h"

#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <wslay/wslay.h>

#include "cli/interrupt.h"

#define WEBSOCKET_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, section 1.3 */
enum {
	HEAD_MAX_BYTES = 16 * 1024,
	MESSAGE_MAX_BYTES = 4 * 1024 * 1024,
	UPGRADE_TIMEOUT_MS = 120 * 1000, /* a hibernated sandbox is woken first */
};

struct VialWebsocket {
	VialHttp *http;
	CURL *easy;
	curl_socket_t fd;
	wslay_event_context_ptr wslay;
	VialWebsocketHandlers handlers;
	gpointer data;
	GByteArray *early; /* frames that came in one piece with the upgrade's answer */
	GError *error;     /* a handler's or the transport's, carried out of wslay's callbacks */
	gint64 heard_us;
};

static gboolean fail_curl(VialWebsocket *websocket, CURLcode code, GError **error)
{
	g_propagate_error(error, vial_http_error_from_curl(websocket->http, code, NULL));
	return FALSE;
}

/* Waits for the socket, Ctrl-C or the deadline. */
static gboolean wait_ready(VialWebsocket *websocket, short events, gint64 deadline_us, GError **error)
{
	for (;;) {
		gint64 left_ms = (deadline_us - g_get_monotonic_time()) / 1000;
		if (left_ms <= 0)
			return fail_curl(websocket, CURLE_OPERATION_TIMEDOUT, error);
		struct pollfd wait[] = { { .fd = websocket->fd, .events = events }, { .fd = vial_interrupt_fd(), .events = POLLIN } };
		poll(wait, 2, (int)left_ms);
		if (vial_interrupt_pending()) {
			g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED, "interrupted");
			return FALSE;
		}
		if (wait[0].revents)
			return TRUE;
	}
}

/* --- the upgrade ---------------------------------------------------------------------------------------------------- */

static gboolean send_all(VialWebsocket *websocket, const char *bytes, gsize size, gint64 deadline_us, GError **error)
{
	while (size > 0) {
		size_t sent = 0;
		CURLcode code = curl_easy_send(websocket->easy, bytes, size, &sent);
		if (code == CURLE_AGAIN) {
			if (!wait_ready(websocket, POLLOUT, deadline_us, error))
				return FALSE;
			continue;
		}
		if (code != CURLE_OK)
			return fail_curl(websocket, code, error);
		bytes += sent;
		size -= sent;
	}
	return TRUE;
}

/* Appends at least one byte to `into`; at the end of the stream *out_ended is set. */
static gboolean receive_some(VialWebsocket *websocket, GByteArray *into, gint64 deadline_us, gboolean *out_ended, GError **error)
{
	char buffer[4096];
	for (;;) {
		size_t size = 0;
		CURLcode code = curl_easy_recv(websocket->easy, buffer, sizeof buffer, &size);
		if (code == CURLE_AGAIN) {
			if (!wait_ready(websocket, POLLIN, deadline_us, error))
				return FALSE;
			continue;
		}
		if (code != CURLE_OK)
			return fail_curl(websocket, code, error);
		g_byte_array_append(into, (const guint8 *)buffer, (guint)size);
		*out_ended = size == 0;
		return TRUE;
	}
}

/* The value of a header, trimmed, or NULL. Free it. */
static char *header_value(char **lines, const char *name)
{
	gsize length = strlen(name);
	for (; *lines; lines++)
		if (g_ascii_strncasecmp(*lines, name, length) == 0 && (*lines)[length] == ':')
			return g_strstrip(g_strdup(*lines + length + 1));
	return NULL;
}

static char *accept_for(const char *key)
{
	g_autofree char *text = g_strconcat(key, WEBSOCKET_GUID, NULL);
	guint8 digest[20];
	gsize size = sizeof digest;
	g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA1);
	g_checksum_update(sum, (const guchar *)text, -1);
	g_checksum_get_digest(sum, digest, &size);
	return g_base64_encode(digest, size);
}

/* Not upgraded: an ordinary answer, whose body says why. */
static gboolean fail_refused(VialWebsocket *websocket, long status, char **lines, GByteArray *body, gint64 deadline_us, GError **error)
{
	g_autofree char *length = header_value(lines, "Content-Length");
	guint64 wanted = MIN(length ? g_ascii_strtoull(length, NULL, 10) : 0, (guint64)HEAD_MAX_BYTES);
	gboolean has_ended = FALSE;
	while (body->len < wanted && !has_ended)
		if (!receive_some(websocket, body, deadline_us, &has_ended, NULL))
			break;
	g_propagate_error(error, vial_http_error_from_answer(websocket->http, status, (const char *)body->data, body->len));
	return FALSE;
}

static gboolean check_answer(VialWebsocket *websocket, const char *head, const char *key, gint64 deadline_us, GError **error)
{
	g_auto(GStrv) lines = g_strsplit(head, "\r\n", -1);
	long status = 0;
	if (g_str_has_prefix(lines[0], "HTTP/1.") && strlen(lines[0]) >= 12)
		status = strtol(lines[0] + 9, NULL, 10);
	if (status == 0)
		return fail_curl(websocket, CURLE_WEIRD_SERVER_REPLY, error);
	if (status != 101)
		return fail_refused(websocket, status, lines, websocket->early, deadline_us, error);
	g_autofree char *accept = header_value(lines, "Sec-WebSocket-Accept");
	g_autofree char *wanted = accept_for(key);
	if (g_strcmp0(accept, wanted) != 0) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "what answers at %s is not a WebSocket server",
		            vial_http_base_url(websocket->http));
		return FALSE;
	}
	return TRUE;
}

static char *request_head(VialWebsocket *websocket, const char *path, const char *key)
{
	g_autoptr(GUri) uri = g_uri_parse(vial_http_base_url(websocket->http), G_URI_FLAGS_NONE, NULL);
	const char *host = g_uri_get_host(uri);
	const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";
	GString *head = g_string_new(NULL);
	g_string_append_printf(head, "GET %s HTTP/1.1\r\nHost: %s%s%s", path, open, host, close);
	if (g_uri_get_port(uri) > 0)
		g_string_append_printf(head, ":%d", g_uri_get_port(uri));
	g_string_append_printf(head,
	                       "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
	                       "Sec-WebSocket-Key: %s\r\nUser-Agent: vial/" VIAL_VERSION "\r\n",
	                       key);
	if (vial_http_key(websocket->http))
		g_string_append_printf(head, "Authorization: Bearer %s\r\n", vial_http_key(websocket->http));
	g_string_append(head, "\r\n");
	return g_string_free(head, FALSE);
}

static gboolean upgrade(VialWebsocket *websocket, const char *path, GError **error)
{
	gint64 deadline_us = g_get_monotonic_time() + UPGRADE_TIMEOUT_MS * G_GINT64_CONSTANT(1000);
	guint8 nonce[16];
	if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
		memset(nonce, 'v', sizeof nonce); /* it only has to be echoed correctly */
	g_autofree char *key = g_base64_encode(nonce, sizeof nonce);
	g_autofree char *head = request_head(websocket, path, key);
	if (!send_all(websocket, head, strlen(head), deadline_us, error))
		return FALSE;
	for (;;) {
		gboolean has_ended = FALSE;
		if (!receive_some(websocket, websocket->early, deadline_us, &has_ended, error))
			return FALSE;
		const char *bytes = (const char *)websocket->early->data;
		const char *end = memmem(bytes, websocket->early->len, "\r\n\r\n", 4);
		if (end) {
			g_autofree char *answer = g_strndup(bytes, end - bytes);
			g_byte_array_remove_range(websocket->early, 0, (guint)(end - bytes) + 4);
			return check_answer(websocket, answer, key, deadline_us, error);
		}
		if (has_ended || websocket->early->len > HEAD_MAX_BYTES)
			return fail_curl(websocket, has_ended ? CURLE_GOT_NOTHING : CURLE_WEIRD_SERVER_REPLY, error);
	}
}

/* --- wslay's callbacks ---------------------------------------------------------------------------------------------- */

static ssize_t on_receive(wslay_event_context_ptr wslay, uint8_t *buffer, size_t length, int flags, void *data)
{
	VialWebsocket *websocket = data;
	if (websocket->error) { /* a handler refused: read no further */
		wslay_event_set_error(wslay, WSLAY_ERR_CALLBACK_FAILURE);
		return -1;
	}
	if (websocket->early->len > 0) {
		gsize size = MIN(length, websocket->early->len);
		memcpy(buffer, websocket->early->data, size);
		g_byte_array_remove_range(websocket->early, 0, (guint)size);
		return (ssize_t)size;
	}
	size_t size = 0;
	CURLcode code = curl_easy_recv(websocket->easy, buffer, length, &size);
	if (code == CURLE_AGAIN) {
		wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	if (code != CURLE_OK || size == 0) {
		websocket->error = vial_http_error_from_curl(websocket->http, CURLE_RECV_ERROR, NULL);
		wslay_event_set_error(wslay, WSLAY_ERR_CALLBACK_FAILURE);
		return -1;
	}
	websocket->heard_us = g_get_monotonic_time();
	return (ssize_t)size;
}

static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *bytes, size_t length, int flags, void *data)
{
	VialWebsocket *websocket = data;
	size_t size = 0;
	CURLcode code = curl_easy_send(websocket->easy, bytes, length, &size);
	if (code == CURLE_OK && size > 0)
		return (ssize_t)size;
	if (code == CURLE_AGAIN || code == CURLE_OK) {
		wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	if (!websocket->error)
		websocket->error = vial_http_error_from_curl(websocket->http, CURLE_SEND_ERROR, NULL);
	wslay_event_set_error(wslay, WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static int on_mask(wslay_event_context_ptr wslay, uint8_t *buffer, size_t length, void *data)
{
	return getrandom(buffer, length, 0) == (ssize_t)length ? 0 : -1;
}

static void on_message(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *message, void *data)
{
	VialWebsocket *websocket = data;
	if (websocket->error)
		return;
	if (message->opcode == WSLAY_BINARY_FRAME)
		websocket->handlers.on_binary(message->msg, message->msg_length, websocket->data, &websocket->error);
	else if (message->opcode == WSLAY_TEXT_FRAME)
		websocket->handlers.on_text((const char *)message->msg, message->msg_length, websocket->data, &websocket->error);
}

/* --- public --------------------------------------------------------------------------------------------------------- */

VialWebsocket *vial_websocket_open(VialHttp *http, const char *path, const VialWebsocketHandlers *handlers, gpointer data, GError **error)
{
	g_autoptr(VialWebsocket) websocket = g_new0(VialWebsocket, 1);
	websocket->http = http;
	websocket->handlers = *handlers;
	websocket->data = data;
	websocket->early = g_byte_array_new();
	websocket->heard_us = g_get_monotonic_time();
	websocket->easy = curl_easy_init();
	vial_http_prepare(http, websocket->easy, path);
	curl_easy_setopt(websocket->easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(websocket->easy, CURLOPT_HTTPPROXYTUNNEL, 1L); /* a proxy that reads along would break the upgrade */
	CURLcode code = curl_easy_perform(websocket->easy);
	if (code == CURLE_OK)
		code = curl_easy_getinfo(websocket->easy, CURLINFO_ACTIVESOCKET, &websocket->fd);
	if (code != CURLE_OK) {
		fail_curl(websocket, code, error);
		return NULL;
	}
	if (!upgrade(websocket, path, error))
		return NULL;
	struct wslay_event_callbacks callbacks = {
		.recv_callback = on_receive,
		.send_callback = on_send,
		.genmask_callback = on_mask,
		.on_msg_recv_callback = on_message,
	};
	wslay_event_context_client_init(&websocket->wslay, &callbacks, websocket);
	wslay_event_config_set_max_recv_msg_length(websocket->wslay, MESSAGE_MAX_BYTES);
	return g_steal_pointer(&websocket);
}

void vial_websocket_free(VialWebsocket *websocket)
{
	if (!websocket)
		return;
	if (websocket->wslay)
		wslay_event_context_free(websocket->wslay);
	if (websocket->easy)
		curl_easy_cleanup(websocket->easy);
	g_byte_array_unref(websocket->early);
	g_clear_error(&websocket->error);
	g_free(websocket);
}

int vial_websocket_fd(const VialWebsocket *websocket)
{
	return (int)websocket->fd;
}

static gboolean result(VialWebsocket *websocket, int code, GError **error)
{
	if (websocket->error) {
		g_propagate_error(error, g_steal_pointer(&websocket->error));
		return FALSE;
	}
	if (code == 0)
		return TRUE;
	return fail_curl(websocket, CURLE_RECV_ERROR, error);
}

gboolean vial_websocket_read(VialWebsocket *websocket, GError **error)
{
	return result(websocket, wslay_event_recv(websocket->wslay), error);
}

gboolean vial_websocket_flush(VialWebsocket *websocket, GError **error)
{
	return result(websocket, wslay_event_send(websocket->wslay), error);
}

gboolean vial_websocket_wants_write(const VialWebsocket *websocket)
{
	return wslay_event_want_write(websocket->wslay);
}

gboolean vial_websocket_is_closed(const VialWebsocket *websocket)
{
	return wslay_event_get_close_received(websocket->wslay);
}

gsize vial_websocket_queued_bytes(const VialWebsocket *websocket)
{
	return wslay_event_get_queued_msg_length(websocket->wslay);
}

gint64 vial_websocket_heard_us(const VialWebsocket *websocket)
{
	return websocket->heard_us;
}

static void queue(VialWebsocket *websocket, uint8_t opcode, const void *bytes, gsize size)
{
	struct wslay_event_msg message = { .opcode = opcode, .msg = bytes, .msg_length = size };
	wslay_event_queue_msg(websocket->wslay, &message); /* refused only after a close, when nobody listens any more */
}

void vial_websocket_send_binary(VialWebsocket *websocket, const void *bytes, gsize size)
{
	queue(websocket, WSLAY_BINARY_FRAME, bytes, size);
}

void vial_websocket_send_text(VialWebsocket *websocket, const char *text)
{
	queue(websocket, WSLAY_TEXT_FRAME, text, strlen(text));
}

void vial_websocket_ping(VialWebsocket *websocket)
{
	queue(websocket, WSLAY_PING, NULL, 0);
}

void vial_websocket_close(VialWebsocket *websocket)
{
	wslay_event_queue_close(websocket->wslay, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0);
}
