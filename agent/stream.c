/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: stream.h for handlers, streams.h for the connection.
 *
 * States of a stream: open → closing (the handler is done; CLOSE waits behind kept frames) → freed. Besides, a stream can be *dropped*:
 * nobody listens, everything sent vanishes, and it is freed when its handler closes it. A stream is in the ready queue exactly when it has
 * something to do once the connection has room: kept frames with credit, or a waiting handler with credit.
 */
#include "stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calm.h"
#include "connection.h"
#include "hello.h"
#include "ops.h"
#include "streams.h"
#include "text.h"

#define BUCKETS 256u
/* How many streams are served between two looks at the descriptors. */
#define PUMP_ROUNDS 16
/* Credit is given back in portions of this size, so that a small frame does not cost a frame. */
#define CREDIT_PORTION (256u * 1024u)

struct kept_frame {
	struct kept_frame *next;
	uint8_t type, channel;
	size_t size_bytes, sent_bytes;
	uint8_t bytes[];
};

struct vial_stream {
	struct vial_stream *next_in_bucket;
	struct vial_stream *next_ready;
	bool is_in_ready_queue;
	uint32_t id;
	uint16_t epoch;
	bool is_dropped, is_closing, is_cancelled, is_waiting;
	size_t send_credit;    /* what we may still send */
	size_t receive_credit; /* what the host may still send */
	size_t consumed_bytes; /* not yet granted again */
	struct kept_frame *first_kept, **last_kept;
	char *event; /* parts of an incoming EVENT that spans frames */
	size_t event_bytes;
	const struct vial_stream_handlers *handlers;
	void *data;
};

static const struct vial_stream_handlers no_handlers;
static struct vial_stream *buckets[BUCKETS];
static struct vial_stream *first_ready, **last_ready = &first_ready;
static unsigned stream_count;

unsigned vial_streams_count(void)
{
	return stream_count;
}

static struct vial_stream *find(uint32_t id, uint16_t epoch)
{
	struct vial_stream *stream = buckets[id % BUCKETS];

	while (stream && (stream->id != id || stream->epoch != epoch))
		stream = stream->next_in_bucket;
	return stream;
}

static void leave_ready_queue(struct vial_stream *stream)
{
	struct vial_stream **link = &first_ready;

	if (!stream->is_in_ready_queue)
		return;
	while (*link != stream)
		link = &(*link)->next_ready;
	*link = stream->next_ready;
	if (last_ready == &stream->next_ready)
		last_ready = link;
	stream->is_in_ready_queue = false;
}

static void enter_ready_queue(struct vial_stream *stream)
{
	if (stream->is_in_ready_queue)
		return;
	stream->next_ready = NULL;
	*last_ready = stream;
	last_ready = &stream->next_ready;
	stream->is_in_ready_queue = true;
}

static void free_kept(struct vial_stream *stream)
{
	while (stream->first_kept) {
		struct kept_frame *kept = stream->first_kept;

		stream->first_kept = kept->next;
		free(kept);
	}
	stream->last_kept = &stream->first_kept;
}

static void free_stream(struct vial_stream *stream)
{
	struct vial_stream **link = &buckets[stream->id % BUCKETS];

	while (*link != stream)
		link = &(*link)->next_in_bucket;
	*link = stream->next_in_bucket;
	leave_ready_queue(stream);
	free_kept(stream);
	free(stream->event);
	free(stream);
	stream_count--;
}

void vial_stream_set_handlers(struct vial_stream *stream, const struct vial_stream_handlers *handlers, void *data)
{
	stream->handlers = handlers;
	stream->data = data;
}

void *vial_stream_data(const struct vial_stream *stream)
{
	return stream->data;
}

/* --- sending --- */

static bool costs_credit(uint8_t type)
{
	return type == VIAL_WIRE_DATA || type == VIAL_WIRE_EVENT;
}

static void keep(struct vial_stream *stream, uint8_t type, uint8_t channel, const void *bytes, size_t size_bytes)
{
	struct kept_frame *kept = malloc(sizeof(*kept) + size_bytes);

	if (!kept)
		abort(); /* as in vial_connection_send(): a frame lost in the middle of a stream cannot be mended */
	*kept = (struct kept_frame){ .type = type, .channel = channel, .size_bytes = size_bytes };
	if (size_bytes > 0)
		memcpy(kept->bytes, bytes, size_bytes);
	*stream->last_kept = kept;
	stream->last_kept = &kept->next;
}

static bool has_work(const struct vial_stream *stream)
{
	if (stream->first_kept)
		return stream->send_credit > 0 || !costs_credit(stream->first_kept->type);
	return stream->is_waiting && (stream->send_credit > 0 || stream->is_dropped);
}

/* True when the frame is wholly sent. */
static bool send_part(struct vial_stream *stream, struct kept_frame *kept)
{
	size_t left = kept->size_bytes - kept->sent_bytes;
	size_t part = left > VIAL_WIRE_MAX_PAYLOAD ? VIAL_WIRE_MAX_PAYLOAD : left;
	uint8_t channel = kept->channel;

	if (costs_credit(kept->type) && part > stream->send_credit)
		part = stream->send_credit;
	if (costs_credit(kept->type) && part == 0 && left > 0)
		return false;
	if (kept->type == VIAL_WIRE_EVENT && part < left)
		channel |= VIAL_WIRE_MORE;
	vial_connection_send(stream->id, stream->epoch, kept->type, channel, kept->bytes + kept->sent_bytes, part);
	kept->sent_bytes += part;
	if (costs_credit(kept->type))
		stream->send_credit -= part;
	return kept->sent_bytes == kept->size_bytes;
}

/* Sends kept frames while credit and the connection's room last. The stream may be freed by it: false then. */
static bool send_kept(struct vial_stream *stream)
{
	while (stream->first_kept) {
		struct kept_frame *kept = stream->first_kept;

		if (vial_connection_room() == 0 && costs_credit(kept->type))
			break;
		if (!send_part(stream, kept)) {
			if (stream->send_credit == 0)
				break;
			continue;
		}
		stream->first_kept = kept->next;
		if (!stream->first_kept)
			stream->last_kept = &stream->first_kept;
		free(kept);
	}
	if (stream->first_kept || !stream->is_closing) {
		if (has_work(stream))
			enter_ready_queue(stream);
		return true;
	}
	free_stream(stream);
	return false;
}

static bool send(struct vial_stream *stream, uint8_t type, uint8_t channel, const void *bytes, size_t size_bytes)
{
	if (stream->is_dropped)
		return true;
	keep(stream, type, channel, bytes, size_bytes);
	return send_kept(stream);
}

size_t vial_stream_room(const struct vial_stream *stream)
{
	size_t room = vial_connection_room();

	if (stream->is_dropped)
		return VIAL_WIRE_MAX_PAYLOAD;
	if (stream->first_kept)
		return 0;
	if (room > stream->send_credit)
		room = stream->send_credit;
	return room > VIAL_WIRE_MAX_PAYLOAD ? VIAL_WIRE_MAX_PAYLOAD : room;
}

void vial_stream_wait_writable(struct vial_stream *stream)
{
	stream->is_waiting = true;
	if (has_work(stream))
		enter_ready_queue(stream);
}

void vial_stream_send_data(struct vial_stream *stream, uint8_t channel, const void *bytes, size_t size_bytes)
{
	size_t room = vial_stream_room(stream);

	if (stream->is_dropped || size_bytes == 0)
		return;
	if (size_bytes > room) {
		send(stream, VIAL_WIRE_DATA, channel, bytes, size_bytes);
		return;
	}
	/* The common case, without a detour through a kept frame. */
	vial_connection_send(stream->id, stream->epoch, VIAL_WIRE_DATA, channel, bytes, size_bytes);
	stream->send_credit -= size_bytes;
}

uint8_t *vial_stream_reserve(struct vial_stream *stream, size_t *out_size)
{
	/* Bytes for nobody still need a place to be read into. */
	static uint8_t nowhere[64 * 1024];
	size_t room = vial_stream_room(stream);

	if (room == 0)
		return NULL;
	*out_size = stream->is_dropped ? sizeof(nowhere) : room;
	return stream->is_dropped ? nowhere : vial_connection_reserve(room);
}

void vial_stream_commit(struct vial_stream *stream, uint8_t channel, size_t size_bytes)
{
	if (size_bytes == 0 || stream->is_dropped)
		return;
	vial_connection_commit(stream->id, stream->epoch, VIAL_WIRE_DATA, channel, size_bytes);
	stream->send_credit -= size_bytes;
}

void vial_stream_send_event(struct vial_stream *stream, json_t *event)
{
	char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;

	json_decref(event);
	if (text)
		send(stream, VIAL_WIRE_EVENT, 0, text, strlen(text));
	free(text);
}

void vial_stream_send_event_text(struct vial_stream *stream, const char *text, size_t size_bytes)
{
	send(stream, VIAL_WIRE_EVENT, 0, text, size_bytes);
}

void vial_stream_send_eof(struct vial_stream *stream, uint8_t channel)
{
	send(stream, VIAL_WIRE_EOF, channel, NULL, 0);
}

void vial_stream_consumed(struct vial_stream *stream, size_t size_bytes)
{
	uint8_t grant[4];

	stream->consumed_bytes += size_bytes;
	if (stream->consumed_bytes < CREDIT_PORTION || stream->is_dropped)
		return;
	vial_wire_put_u32(grant, (uint32_t)stream->consumed_bytes);
	stream->receive_credit += stream->consumed_bytes;
	stream->consumed_bytes = 0;
	vial_connection_send(stream->id, stream->epoch, VIAL_WIRE_CREDIT, 0, grant, sizeof(grant));
}

/* --- closing --- */

static void close_with(struct vial_stream *stream, json_t *result)
{
	static const char fallback[] = "{\"ok\":false,\"code\":\"internal\",\"error\":\"the answer is too large\"}";
	char *text = result ? json_dumps(result, JSON_COMPACT) : NULL;
	const char *payload = text && strlen(text) <= VIAL_WIRE_MAX_PAYLOAD ? text : fallback;

	json_decref(result);
	stream->handlers = &no_handlers;
	stream->is_closing = true;
	stream->is_waiting = false;
	if (stream->is_dropped)
		free_stream(stream);
	else
		send(stream, VIAL_WIRE_CLOSE, 0, payload, strlen(payload));
	free(text);
}

void vial_stream_close_ok(struct vial_stream *stream, json_t *result)
{
	if (!result)
		result = json_object();
	json_object_set_new(result, "ok", json_true());
	close_with(stream, result);
}

void vial_stream_close_error(struct vial_stream *stream, enum vial_code code, const char *format, ...)
{
	char sentence[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	close_with(stream, json_pack("{s:b,s:s,s:o}", "ok", 0, "code", vial_code_name(code), "error", vial_json_text(sentence)));
}

void vial_stream_close_errno(struct vial_stream *stream, int error, const char *format, ...)
{
	char what[900];
	va_list arguments;

	error = abs(error);
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	vial_stream_close_error(stream, vial_code_from_errno(error), "%s: %s", what, strerror(error));
}

const char *vial_code_name(enum vial_code code)
{
	static const char *const names[] = {
		[VIAL_INVALID] = "invalid", [VIAL_NOT_FOUND] = "not_found",     [VIAL_CONFLICT] = "conflict",
		[VIAL_DENIED] = "denied",   [VIAL_NO_SPACE] = "no_space",       [VIAL_LIMIT] = "limit",
		[VIAL_TIMEOUT] = "timeout", [VIAL_UNAVAILABLE] = "unavailable", [VIAL_INTERNAL] = "internal",
	};

	return names[code];
}

enum vial_code vial_code_from_errno(int error)
{
	switch (abs(error)) {
	case ENOENT:
	case ESRCH:
		return VIAL_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
		return VIAL_DENIED;
	case ENOSPC:
	case EDQUOT:
		return VIAL_NO_SPACE;
	case EEXIST:
	case ENOTEMPTY:
	case EISDIR:
	case ENOTDIR:
	case EBUSY:
	case ETXTBSY:
		return VIAL_CONFLICT;
	case EINVAL:
	case ENAMETOOLONG:
	case ELOOP:
	case EXDEV:
		return VIAL_INVALID;
	case EAGAIN:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case E2BIG:
		return VIAL_LIMIT;
	case ETIMEDOUT:
		return VIAL_TIMEOUT;
	case ECONNREFUSED:
		return VIAL_UNAVAILABLE;
	default:
		return VIAL_INTERNAL;
	}
}

/* --- the connection's side --- */

static void refuse(const struct vial_wire_frame *frame, enum vial_code code, const char *sentence)
{
	char text[512];
	int length = snprintf(text, sizeof(text), "{\"ok\":false,\"code\":\"%s\",\"error\":\"%s\"}", vial_code_name(code), sentence);

	vial_connection_send(frame->stream, frame->epoch, VIAL_WIRE_CLOSE, 0, text, (size_t)length);
}

static struct vial_stream *new_stream(const struct vial_wire_frame *frame)
{
	struct vial_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->id = frame->stream;
	stream->epoch = frame->epoch;
	stream->send_credit = stream->receive_credit = VIAL_WIRE_INITIAL_CREDIT;
	stream->last_kept = &stream->first_kept;
	stream->handlers = &no_handlers;
	stream->next_in_bucket = buckets[stream->id % BUCKETS];
	buckets[stream->id % BUCKETS] = stream;
	stream_count++;
	return stream;
}

static void begin(const struct vial_op *op, struct vial_stream *stream, json_t *request)
{
	vial_calm_end(op->is_ours);
	op->fn(stream, request);
}

static void start_operation(struct vial_stream *stream, const struct vial_wire_frame *frame)
{
	json_error_t problem;
	json_t *request = json_loadb((const char *)frame->payload, frame->length, JSON_REJECT_DUPLICATES, &problem);
	const char *name = json_string_value(json_object_get(request, "op"));
	const struct vial_op *op = name ? vial_op_find(name) : NULL;

	if (!json_is_object(request))
		vial_stream_close_error(stream, VIAL_INVALID, "OPEN must carry a JSON object");
	else if (!name)
		vial_stream_close_error(stream, VIAL_INVALID, "the field \"op\" must be a string");
	else if (!op)
		vial_stream_close_error(stream, VIAL_INVALID, "there is no operation \"%.64s\"", name);
	else
		begin(op, stream, request);
	json_decref(request);
}

static void receive_open(const struct vial_wire_frame *frame)
{
	struct vial_stream *stream;

	if (frame->stream == VIAL_WIRE_STREAM_CONNECTION || frame->stream == VIAL_WIRE_STREAM_HOST) {
		refuse(frame, VIAL_INVALID, "this stream id is reserved");
		return;
	}
	if (!vial_hello_is_confirmed()) {
		refuse(frame, VIAL_UNAVAILABLE, "not_ready: the agent has not confirmed a HELLO yet");
		return;
	}
	if (find(frame->stream, frame->epoch)) {
		refuse(frame, VIAL_CONFLICT, "this stream is open already");
		return;
	}
	stream = stream_count < VIAL_WIRE_MAX_STREAMS ? new_stream(frame) : NULL;
	if (!stream)
		refuse(frame, VIAL_LIMIT, "too many operations at once");
	else
		start_operation(stream, frame);
}

static void receive_data(struct vial_stream *stream, const struct vial_wire_frame *frame)
{
	if (stream->handlers->on_data)
		stream->handlers->on_data(stream, frame->channel, frame->payload, frame->length);
	else
		vial_stream_consumed(stream, frame->length);
}

static void receive_event(struct vial_stream *stream, const struct vial_wire_frame *frame)
{
	size_t total = stream->event_bytes + frame->length;
	char *joined = total <= VIAL_WIRE_MAX_EVENT ? realloc(stream->event, total + 1) : NULL;
	json_t *event;

	vial_stream_consumed(stream, frame->length);
	if (!joined)
		return;
	memcpy(joined + stream->event_bytes, frame->payload, frame->length);
	stream->event = joined;
	stream->event_bytes = total;
	if (frame->channel & VIAL_WIRE_MORE)
		return;
	event = json_loadb(joined, total, JSON_REJECT_DUPLICATES, NULL);
	free(joined);
	stream->event = NULL;
	stream->event_bytes = 0;
	if (json_is_object(event) && stream->handlers->on_event)
		stream->handlers->on_event(stream, event);
	json_decref(event);
}

static void cancel(struct vial_stream *stream)
{
	if (stream->is_cancelled || stream->is_closing)
		return;
	stream->is_cancelled = true;
	if (stream->handlers->on_cancel)
		stream->handlers->on_cancel(stream);
	else
		vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled");
}

static void receive_credit(struct vial_stream *stream, const struct vial_wire_frame *frame)
{
	uint32_t grant = vial_wire_get_u32(frame->payload);

	/* A host that grants without end must not wrap the counter. */
	if (stream->send_credit < SIZE_MAX / 2)
		stream->send_credit += grant;
	if (has_work(stream))
		enter_ready_queue(stream);
}

/* True when the frame was counted; a host that sends more than it was granted loses the stream, not the agent. */
static bool take_receive_credit(struct vial_stream *stream, const struct vial_wire_frame *frame)
{
	if (frame->length <= stream->receive_credit) {
		stream->receive_credit -= frame->length;
		return true;
	}
	if (!stream->is_closing)
		cancel(stream);
	return false;
}

void vial_streams_receive(const struct vial_wire_frame *frame)
{
	struct vial_stream *stream;

	if (frame->type == VIAL_WIRE_OPEN) {
		receive_open(frame);
		return;
	}
	/* Frames for a stream that has closed in the meantime are normal: the host could not know. */
	stream = find(frame->stream, frame->epoch);
	if (!stream || stream->is_dropped)
		return;
	if (frame->type == VIAL_WIRE_CREDIT) {
		receive_credit(stream, frame);
		return;
	}
	if (stream->is_closing || (costs_credit(frame->type) && !take_receive_credit(stream, frame)))
		return;
	if (frame->type == VIAL_WIRE_DATA)
		receive_data(stream, frame);
	else if (frame->type == VIAL_WIRE_EVENT)
		receive_event(stream, frame);
	else if (frame->type == VIAL_WIRE_EOF && stream->handlers->on_eof)
		stream->handlers->on_eof(stream, frame->channel);
	else if (frame->type == VIAL_WIRE_CANCEL)
		cancel(stream);
}

bool vial_streams_pump(void)
{
	for (int round = 0; round < PUMP_ROUNDS && first_ready && vial_connection_room() > 0; round++) {
		struct vial_stream *stream = first_ready;

		leave_ready_queue(stream);
		if (stream->first_kept) {
			send_kept(stream);
		} else if (stream->is_waiting && has_work(stream)) {
			stream->is_waiting = false;
			if (stream->handlers->on_writable)
				stream->handlers->on_writable(stream);
		}
	}
	return first_ready != NULL;
}

/* From now on nobody hears it. */
static void drop(struct vial_stream *stream)
{
	stream->is_dropped = true;
	free_kept(stream);
	leave_ready_queue(stream);
	if (stream->is_closing)
		free_stream(stream);
	else if (stream->is_waiting)
		enter_ready_queue(stream);
}

/* Calls `fn` for every stream that there is now. By name, not by pointer: one handler may end another's stream. */
static void for_each(void (*fn)(struct vial_stream *stream, uint16_t epoch), uint16_t epoch)
{
	static struct {
		uint32_t id;
		uint16_t epoch;
	} all[VIAL_WIRE_MAX_STREAMS];
	unsigned count = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct vial_stream *stream = buckets[i]; stream; stream = stream->next_in_bucket) {
			all[count].id = stream->id;
			all[count++].epoch = stream->epoch;
		}
	}
	for (unsigned i = 0; i < count; i++) {
		struct vial_stream *stream = find(all[i].id, all[i].epoch);

		if (stream)
			fn(stream, epoch);
	}
}

static void reset_one(struct vial_stream *stream, uint16_t epoch)
{
	bool was_open = !stream->is_closing && !stream->is_dropped;

	if (stream->epoch == epoch || stream->is_dropped)
		return;
	drop(stream);
	if (was_open)
		cancel(stream);
}

static void drop_one(struct vial_stream *stream, uint16_t epoch)
{
	const struct vial_stream_handlers *handlers = stream->handlers;

	if (stream->is_closing || stream->is_dropped || !handlers->on_drop) {
		reset_one(stream, (uint16_t)~stream->epoch);
		return;
	}
	drop(stream);
	handlers->on_drop(stream);
	free_stream(stream);
}

void vial_streams_reset(uint16_t epoch)
{
	for_each(reset_one, epoch);
}

void vial_streams_drop_all(void)
{
	for_each(drop_one, 0);
}
