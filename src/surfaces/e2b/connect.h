/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Connect protocol (connectrpc.com/docs/protocol), in JSON, which is what E2B's SDKs speak: calls with one answer, and streams of frames. A frame
 * is a byte of flags, four of length (the highest first), and a JSON object; a stream's last says how it ended, and its HTTP status is 200 whatever
 * happens.
 *
 * A stream answers through an exchange whose state begins with a VialConnect: connect_init(), then open() when there is something to say, send() as
 * often as there is, and fail() or end(), which end the exchange. A silence is broken by a message that the service has for it, and a client's own
 * time limit ends the stream.
 */
#pragma once

#include "surfaces/shared/surface.h"

#define VIAL_CONNECT_FRAME_HEAD_BYTES 5

/* An error as this protocol has it; the sentence for humans is the same as everywhere. */
unsigned vial_connect_status(const GError *error);
json_t *vial_connect_error_json(const GError *error);

/* The one message of a request that begins a stream: a new reference, or NULL with an error. The route has VIAL_ROUTE_RAW_BODY. */
json_t *vial_connect_request(VialRequest *request, GError **error);

/* Frames of a request's body as they come: push what came, then next() until it is NULL without an error. */
typedef struct {
	GByteArray *bytes;
	gsize max_bytes; /* of one message */
} VialConnectReader;

void vial_connect_reader_push(VialConnectReader *reader, const void *bytes, gsize size);
json_t *vial_connect_reader_next(VialConnectReader *reader, GError **error);
void vial_connect_reader_clear(VialConnectReader *reader);

/* The client's Connect-Timeout-Ms; 0: it has none. FALSE with an error for what is no number. */
gboolean vial_connect_timeout_ms(const VialRequest *request, gint64 *out_ms, GError **error);

typedef struct {
	VialExchange *exchange;
	const char *silence; /* the message that breaks one, as JSON; NULL: none does */
	guint silence_id, limit_id;
	gint64 silent_since_us;
	gint64 interval_us;
	gboolean is_open;
} VialConnect;

void vial_connect_init(VialConnect *connect, VialExchange *exchange, const char *silence);
void vial_connect_clear(VialConnect *connect); /* for the state's free function */
/* After so many milliseconds (0: never) the operation is cancelled and the stream ends with deadline_exceeded. */
void vial_connect_limit(VialConnect *connect, gint64 limit_ms);
void vial_connect_open(VialConnect *connect);
/* TRUE: enough for now. send() consumes the message; send_bytes() puts them, as base64, between two pieces of JSON. */
gboolean vial_connect_send(VialConnect *connect, json_t *message);
gboolean vial_connect_send_bytes(VialConnect *connect, const char *before, GBytes *bytes, const char *after);
/* The whole answer of a stream that did not begin. */
void vial_connect_reply_error(VialRequest *request, const GError *error);
/* The end of stream and exchange; `error` NULL: it went well. */
void vial_connect_end(VialConnect *connect, const GError *error);
