/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of a WebSocket: libcurl opens the connection (TLS and proxies included) and carries bytes, the upgrade is
 * done here, wslay does the framing. (libcurl's own WebSocket is experimental in the version Debian 12 has.)
 *
 * Order: open, then poll fd and call vial_websocket_read()/flush() as it becomes ready, then free.
 */
#pragma once

#include "cli/http.h"

typedef struct VialWebsocket VialWebsocket;

typedef struct {
	/* FALSE stops; set *error. */
	gboolean (*on_binary)(const void *bytes, gsize size, gpointer data, GError **error);
	gboolean (*on_text)(const char *text, gsize size, gpointer data, GError **error);
} VialWebsocketHandlers;

VialWebsocket *vial_websocket_open(VialHttp *http, const char *path, const VialWebsocketHandlers *handlers, gpointer data, GError **error);
void vial_websocket_free(VialWebsocket *websocket);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialWebsocket, vial_websocket_free)

int vial_websocket_fd(const VialWebsocket *websocket);
/* Takes what has arrived and calls the handlers. FALSE: the connection failed or a handler refused. */
gboolean vial_websocket_read(VialWebsocket *websocket, GError **error);
/* Sends what is queued, as far as the socket takes it. */
gboolean vial_websocket_flush(VialWebsocket *websocket, GError **error);
gboolean vial_websocket_wants_write(const VialWebsocket *websocket);
gboolean vial_websocket_is_closed(const VialWebsocket *websocket); /* the other side said goodbye */
gsize vial_websocket_queued_bytes(const VialWebsocket *websocket);
/* When the other side was last heard; monotonic microseconds. */
gint64 vial_websocket_heard_us(const VialWebsocket *websocket);

void vial_websocket_send_binary(VialWebsocket *websocket, const void *bytes, gsize size);
void vial_websocket_send_text(VialWebsocket *websocket, const char *text);
void vial_websocket_ping(VialWebsocket *websocket);
/* Says goodbye: queued behind everything else. */
void vial_websocket_close(VialWebsocket *websocket);
