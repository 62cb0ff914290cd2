/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation's conversation with the host: what an op handler holds. Credit, order and the wire's limits are kept here;
 * a handler asks for room, sends, and closes exactly once.
 *
 * Life: connection.c makes the stream at OPEN, the op table's handler (ops.h) gets it, sets its callbacks, and either closes at once or
 * later. After vial_stream_close_*() the pointer is no longer the handler's. Everything runs on the loop's thread.
 *
 * Pushing back: a producer sends at most vial_stream_room() bytes. When that is 0 it stops reading its source and calls
 * vial_stream_wait_writable(); on_writable comes once, when there is room. Sending more than the room is not an error (an EVENT
 * may be larger than the credit): the rest is kept and goes out as credit arrives, and until then the room is 0.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct vial_stream;

/* Any member may be NULL. */
struct vial_stream_handlers {
	/* Bytes from the host, valid during the call. Say vial_stream_consumed() when they have left our memory: that is the
	 * host's new credit; at most VIAL_WIRE_INITIAL_CREDIT bytes are ever outstanding. NULL: bytes are thrown away. */
	void (*on_data)(struct vial_stream *stream, uint8_t channel, const uint8_t *bytes, size_t size_bytes);
	/* A JSON object from the host; borrowed. Its credit is given back by the stream. */
	void (*on_event)(struct vial_stream *stream, json_t *event);
	void (*on_eof)(struct vial_stream *stream, uint8_t channel);
	/* The host wants the end: close soon. NULL: closed at once with "cancelled". Comes at most once. */
	void (*on_cancel)(struct vial_stream *stream);
	/* See above. Send, and wait again if there is more. */
	void (*on_writable)(struct vial_stream *stream);
	/* The sandbox was resumed as another one: nobody listens any more. Forget the pointer; do not close.
	 * NULL: handled as a CANCEL whose answers go nowhere. */
	void (*on_drop)(struct vial_stream *stream);
};

void vial_stream_set_handlers(struct vial_stream *stream, const struct vial_stream_handlers *handlers, void *data);
void *vial_stream_data(const struct vial_stream *stream);

/* How many bytes of DATA may be sent now, at most one frame's worth. 0 when out of credit, congested or frozen. */
size_t vial_stream_room(const struct vial_stream *stream);
void vial_stream_wait_writable(struct vial_stream *stream);

void vial_stream_send_data(struct vial_stream *stream, uint8_t channel, const void *bytes, size_t size_bytes);
/*
 * Sending without a copy: *out_size (at most the room; NULL when there is none) bytes may be filled at the returned address,
 * then commit how many were, at once, with no other call in between. Committing 0 takes it back.
 */
uint8_t *vial_stream_reserve(struct vial_stream *stream, size_t *out_size);
void vial_stream_commit(struct vial_stream *stream, uint8_t channel, size_t size_bytes);
/* Takes over the reference. Split over frames when needed. */
void vial_stream_send_event(struct vial_stream *stream, json_t *event);
/* The same for an event that is text already. */
void vial_stream_send_event_text(struct vial_stream *stream, const char *text, size_t size_bytes);
void vial_stream_send_eof(struct vial_stream *stream, uint8_t channel);

/* Grants the host that many bytes again. */
void vial_stream_consumed(struct vial_stream *stream, size_t size_bytes);

/* {"ok":true} plus the fields of `result` (taken over, may be NULL). */
void vial_stream_close_ok(struct vial_stream *stream, json_t *result);

enum vial_code {
	VIAL_INVALID,
	VIAL_NOT_FOUND,
	VIAL_CONFLICT,
	VIAL_DENIED,
	VIAL_NO_SPACE,
	VIAL_LIMIT,
	VIAL_TIMEOUT,
	VIAL_UNAVAILABLE,
	VIAL_INTERNAL,
};
const char *vial_code_name(enum vial_code code);
/* The code that an errno means to the host. */
enum vial_code vial_code_from_errno(int error);

/* {"ok":false,...}. The sentence says what is wrong and what to do; no trailing newline. */
void vial_stream_close_error(struct vial_stream *stream, enum vial_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* "<what>: <strerror>" with the code of that errno (positive or negative). */
void vial_stream_close_errno(struct vial_stream *stream, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
