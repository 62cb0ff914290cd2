/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of a WebSocket (RFC 6455), on the main loop. accept() answers the request: with 101 when the handshake
 * is right, else with an error. From a successful accept on, `closed` is called exactly once and last, whatever happens;
 * the object is freed after it.
 */
#pragma once

#include "http/request.h"

#define VIAL_WEBSOCKET_MAX_MESSAGE_BYTES (1024 * 1024)
/* A peer that does not read loses the connection here. A producer should stop at VIAL_BODY_HIGH_BYTES. */
#define VIAL_WEBSOCKET_QUEUE_LIMIT_BYTES (16 * 1024 * 1024)
#define VIAL_WEBSOCKET_QUEUE_LIMIT_MESSAGES 16384
/* Nothing heard for this long: a ping. Nothing for twice as long: gone. */
#define VIAL_WEBSOCKET_PING_SECONDS 30
/* How long we wait for the peer's half of a close. */
#define VIAL_WEBSOCKET_CLOSE_SECONDS 5

typedef struct VialWebSocket VialWebSocket;

/* Any of them may be NULL, except `message`. */
typedef struct {
	void (*opened)(VialWebSocket *socket, gpointer data);
	/* A whole message; text is valid UTF-8 and may hold NUL. Borrowed. */
	void (*message)(VialWebSocket *socket, gboolean is_text, const void *bytes, gsize size, gpointer data);
	/* The queue was above VIAL_BODY_HIGH_BYTES and is now below VIAL_BODY_LOW_BYTES. */
	void (*drained)(VialWebSocket *socket, gpointer data);
	/* `code` is the peer's close code, or 1006 when it left without one. Do not use `socket` after this. */
	void (*closed)(VialWebSocket *socket, unsigned code, gpointer data);
} VialWebSocketHandlers;

/*
 * FALSE: the handshake was wrong, the request has been answered, no callback will come. `protocol` (may be NULL) is the
 * subprotocol to confirm. `handlers` must outlive the socket.
 */
gboolean vial_websocket_accept(VialRequest *request, const char *protocol, const VialWebSocketHandlers *handlers, gpointer data);

/* The bytes are copied. Returns the bytes now waiting. Does nothing once closing. */
gsize vial_websocket_send(VialWebSocket *socket, gboolean is_text, const void *bytes, gsize size);

/* Reading can be stopped while what was received cannot be passed on; a message being taken apart is still delivered. */
void vial_websocket_set_reading(VialWebSocket *socket, gboolean is_reading);

/* Sends what is queued, then a close frame; `closed` follows when the peer has answered or not in time. */
void vial_websocket_close(VialWebSocket *socket, unsigned code, const char *reason);
