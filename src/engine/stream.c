/* SPDX-License-Identifier: Apache-2.0 */
/* The conversations on a channel: streams with credit, single questions, and calls to the host process. */
#include <string.h>

#include "engine/channel_private.h"
#include "util/json.h"

/* Credit is given back in pieces of this size: rarely enough to cost nothing, often enough never to stall. */
#define CREDIT_STEP (256u * 1024u)
/* Of EVENTs that are not whole yet, all streams of a sandbox together: they are granted before anybody has taken them. */
#define MAX_PARTIAL_BYTES (2u * VIAL_WIRE_MAX_EVENT)

struct VialStream {
	VialChannel *channel; /* NULL once closed */
	guint32 id;
	VialStreamEvents events;
	gpointer data;
	guint32 room;     /* what we may send */
	gint64 allowance; /* what the agent may send */
	gsize owed;       /* consumed, not yet granted again */
	gboolean wants_room;
	gboolean is_freed; /* by its owner, while one of its callbacks runs */
	guint busy;
	GByteArray *partial; /* an EVENT that spans frames */
	GError *early_error; /* set until fail_later() has run */
};

static void stream_destroy(VialStream *stream)
{
	g_clear_pointer(&stream->partial, g_byte_array_unref);
	g_free(stream);
}

/* Callbacks may free their stream: it is kept until the outermost one has returned. */
static void enter(VialStream *stream)
{
	stream->busy++;
}

static void leave(VialStream *stream)
{
	if (--stream->busy == 0 && stream->is_freed)
		stream_destroy(stream);
}

static void drop_partial(VialStream *stream)
{
	if (!stream->partial)
		return;
	stream->channel->partial_bytes -= stream->partial->len;
	g_clear_pointer(&stream->partial, g_byte_array_unref);
}

static void leave_channel(VialStream *stream)
{
	drop_partial(stream);
	g_hash_table_remove(stream->channel->streams, GUINT_TO_POINTER(stream->id));
	stream->channel = NULL;
}

void vial_stream_finish(VialStream *stream, json_t *result, const GError *error)
{
	if (!stream->channel)
		return;
	leave_channel(stream);
	enter(stream);
	if (stream->events.closed && !stream->is_freed)
		stream->events.closed(stream, result, error, stream->data);
	leave(stream);
}

static gboolean take_allowance(VialStream *stream, gsize size)
{
	stream->allowance -= (gint64)size;
	return stream->allowance >= 0;
}

static const char *handle_data(VialStream *stream, const struct vial_wire_frame *frame)
{
	if (!take_allowance(stream, frame->length))
		return "more data than it was allowed to send";
	if (!stream->events.data) {
		vial_stream_consumed(stream, frame->length);
		return NULL;
	}
	g_autoptr(GBytes) bytes = g_bytes_new(frame->payload, frame->length);
	stream->events.data(stream, frame->channel, bytes, stream->data);
	return NULL;
}

/* A piece of an EVENT that spans frames. */
static const char *keep_piece(VialStream *stream, const struct vial_wire_frame *frame)
{
	VialChannel *channel = stream->channel;

	if ((stream->partial ? stream->partial->len : 0) + frame->length > VIAL_WIRE_MAX_EVENT ||
	    channel->partial_bytes + frame->length > MAX_PARTIAL_BYTES)
		return "an event that is larger than any may be";
	if (!stream->partial)
		stream->partial = g_byte_array_new();
	g_byte_array_append(stream->partial, frame->payload, frame->length);
	channel->partial_bytes += frame->length;
	return NULL;
}

static json_t *parse_event(VialStream *stream, const struct vial_wire_frame *frame)
{
	json_t *event;

	if (!stream->partial)
		return vial_channel_parse(frame->payload, frame->length);
	event = vial_channel_parse(stream->partial->data, stream->partial->len);
	drop_partial(stream);
	return event;
}

static const char *handle_event(VialStream *stream, const struct vial_wire_frame *frame)
{
	gboolean has_more = frame->channel & VIAL_WIRE_MORE;
	g_autoptr(json_t) event = NULL;
	const char *lie = NULL;

	if (!take_allowance(stream, frame->length))
		return "more events than it was allowed to send";
	if (has_more || stream->partial)
		lie = keep_piece(stream, frame);
	if (lie)
		return lie;
	if (has_more) {
		/* Granted at once: an event larger than the window could otherwise never become whole. */
		vial_stream_consumed(stream, frame->length);
		return NULL;
	}
	event = parse_event(stream, frame);
	if (!event)
		return "an event that is not a JSON object within our bounds";
	if (stream->events.event)
		stream->events.event(stream, event, frame->length, stream->data);
	else
		vial_stream_consumed(stream, frame->length);
	return NULL;
}

static const char *handle_close(VialStream *stream, const struct vial_wire_frame *frame)
{
	g_autoptr(json_t) result = vial_channel_parse(frame->payload, frame->length);
	g_autoptr(GError) refusal = NULL;

	if (!result || !vial_message_agent_answer(result, &refusal, NULL))
		return "an answer that is not a JSON object with \"ok\"";
	vial_stream_finish(stream, refusal ? NULL : result, refusal);
	return NULL;
}

static const char *handle_credit(VialStream *stream, const struct vial_wire_frame *frame)
{
	guint32 more = vial_wire_get_u32(frame->payload);

	/* A window beyond this could only serve to make us queue without bound. */
	if (more > VIAL_WIRE_INITIAL_CREDIT * 16u || stream->room > VIAL_WIRE_INITIAL_CREDIT * 16u)
		return "a window that is larger than any may be";
	stream->room += more;
	if (stream->wants_room && stream->events.writable) {
		stream->wants_room = FALSE;
		stream->events.writable(stream, stream->data);
	}
	return NULL;
}

const char *vial_stream_handle(VialStream *stream, const struct vial_wire_frame *frame)
{
	const char *lie = "a frame that only the host may send";

	enter(stream);
	switch (frame->type) {
	case VIAL_WIRE_DATA:
		lie = handle_data(stream, frame);
		break;
	case VIAL_WIRE_EVENT:
		lie = handle_event(stream, frame);
		break;
	case VIAL_WIRE_EOF:
		if (stream->events.eof)
			stream->events.eof(stream, frame->channel, stream->data);
		lie = NULL;
		break;
	case VIAL_WIRE_CLOSE:
		lie = handle_close(stream, frame);
		break;
	case VIAL_WIRE_CREDIT:
		lie = handle_credit(stream, frame);
		break;
	default:
		break;
	}
	leave(stream);
	return lie;
}

/* Failure before the first frame is reported from the loop, so that an owner has its stream before it hears of its end. */
static gboolean fail_later(gpointer data)
{
	VialStream *stream = data;
	g_autoptr(GError) error = g_steal_pointer(&stream->early_error);

	if (stream->is_freed)
		stream_destroy(stream);
	else if (stream->events.closed)
		stream->events.closed(stream, NULL, error, stream->data);
	return G_SOURCE_REMOVE;
}

static GError *refuse_open(const VialChannel *channel, gsize request_size)
{
	if (!channel || channel->fd < 0)
		return g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the connection to the sandbox is gone");
	if (g_hash_table_size(channel->streams) + g_hash_table_size(channel->ending) >= VIAL_WIRE_MAX_STREAMS - 8)
		return g_error_new_literal(VIAL_ERROR, VIAL_ERROR_QUOTA, "too many operations are under way in this sandbox");
	if (request_size > VIAL_WIRE_MAX_PAYLOAD)
		return g_error_new(VIAL_ERROR, VIAL_ERROR_TOO_LARGE, "the request is larger than %u bytes; send big content as a file",
		                   VIAL_WIRE_MAX_PAYLOAD);
	return NULL;
}

VialStream *vial_stream_open(VialChannel *channel, json_t *request, const VialStreamEvents *events, gpointer data)
{
	VialStream *stream = g_new0(VialStream, 1);
	g_autofree char *text = vial_json_dump(request);
	gsize size = strlen(text);

	json_decref(request);
	stream->events = *events;
	stream->data = data;
	stream->room = VIAL_WIRE_INITIAL_CREDIT;
	stream->allowance = VIAL_WIRE_INITIAL_CREDIT;
	stream->early_error = refuse_open(channel, size);
	if (stream->early_error) {
		g_idle_add_full(G_PRIORITY_DEFAULT, fail_later, stream, NULL);
		return stream;
	}
	stream->channel = channel;
	stream->id = channel->next_stream++;
	g_hash_table_insert(channel->streams, GUINT_TO_POINTER(stream->id), stream);
	vial_channel_send(channel, stream->id, VIAL_WIRE_OPEN, 0, text, size);
	return stream;
}

gsize vial_stream_room(const VialStream *stream)
{
	return stream->channel ? stream->room : 0;
}

void vial_stream_send(VialStream *stream, unsigned channel, const void *bytes, gsize size)
{
	const guint8 *next = bytes;

	if (!stream->channel)
		return;
	g_assert(size <= stream->room);
	stream->room -= (guint32)size;
	if (stream->room == 0)
		stream->wants_room = TRUE;
	while (size > 0) {
		gsize piece = MIN(size, VIAL_WIRE_MAX_PAYLOAD);

		vial_channel_send(stream->channel, stream->id, VIAL_WIRE_DATA, (guint8)channel, next, piece);
		next += piece;
		size -= piece;
	}
}

void vial_stream_send_eof(VialStream *stream, unsigned channel)
{
	if (stream->channel)
		vial_channel_send(stream->channel, stream->id, VIAL_WIRE_EOF, (guint8)channel, NULL, 0);
}

void vial_stream_send_event(VialStream *stream, json_t *event)
{
	if (stream->channel)
		vial_channel_send_json(stream->channel, stream->id, VIAL_WIRE_EVENT, event);
	else
		json_decref(event);
}

void vial_stream_consumed(VialStream *stream, gsize size)
{
	guint8 payload[4];

	stream->owed += size;
	if (!stream->channel || stream->owed < CREDIT_STEP)
		return;
	stream->allowance += (gint64)stream->owed;
	vial_wire_put_u32(payload, (guint32)stream->owed);
	stream->owed = 0;
	vial_channel_send(stream->channel, stream->id, VIAL_WIRE_CREDIT, 0, payload, sizeof payload);
}

void vial_stream_free(VialStream *stream)
{
	if (!stream)
		return;
	if (stream->early_error) {
		stream->is_freed = TRUE; /* fail_later() still has it */
		return;
	}
	if (stream->channel) {
		vial_channel_send(stream->channel, stream->id, VIAL_WIRE_CANCEL, 0, NULL, 0);
		g_hash_table_add(stream->channel->ending, GUINT_TO_POINTER(stream->id));
		leave_channel(stream);
	}
	stream->is_freed = TRUE;
	if (stream->busy == 0)
		stream_destroy(stream);
}

/* Single questions */

typedef struct {
	VialStream *stream;
	VialCallDone done;
	gpointer data;
	guint timer;
} Call;

static void call_finish(Call *call, json_t *result, const GError *error)
{
	g_clear_handle_id(&call->timer, g_source_remove);
	if (call->done)
		call->done(result, error, call->data);
	vial_stream_free(call->stream);
	g_free(call);
}

static void call_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	call_finish(data, result, error);
}

static gboolean call_timed_out(gpointer data)
{
	Call *call = data;
	g_autoptr(GError) error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_TIMEOUT, "the agent in the sandbox did not answer in time");

	call->timer = 0;
	call_finish(call, NULL, error);
	return G_SOURCE_REMOVE;
}

void vial_channel_call(VialChannel *channel, json_t *request, guint timeout_ms, VialCallDone done, gpointer data)
{
	static const VialStreamEvents events = { .closed = call_closed };
	Call *call = g_new0(Call, 1);

	call->done = done;
	call->data = data;
	call->timer = g_timeout_add(timeout_ms, call_timed_out, call);
	call->stream = vial_stream_open(channel, request, &events, call);
}

/* Calls to the host process */

struct VialHostCall {
	VialChannel *channel;
	guint tag;
	VialCallDone done;
	gpointer data;
	guint timer;
};

void vial_host_call_finish(VialHostCall *call, json_t *result, const GError *error)
{
	g_clear_handle_id(&call->timer, g_source_remove);
	g_hash_table_remove(call->channel->host_calls, GUINT_TO_POINTER(call->tag));
	if (call->done)
		call->done(error ? NULL : result, error, call->data);
	g_free(call);
}

static gboolean host_call_timed_out(gpointer data)
{
	VialHostCall *call = data;
	g_autoptr(GError) error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_TIMEOUT, "the sandbox's host process did not answer in time");

	call->timer = 0;
	vial_host_call_finish(call, NULL, error);
	return G_SOURCE_REMOVE;
}

void vial_channel_host_call(VialChannel *channel, json_t *request, GArray *fds, guint timeout_ms, VialCallDone done, gpointer data)
{
	VialHostCall *call = g_new0(VialHostCall, 1);

	call->channel = channel;
	call->tag = channel->next_tag++;
	call->done = done;
	call->data = data;
	g_hash_table_insert(channel->host_calls, GUINT_TO_POINTER(call->tag), call);
	json_object_set_new(request, "tag", json_integer(call->tag));
	if (channel->fd < 0)
		timeout_ms = 0; /* nobody will answer: fail from the loop, as callers expect */
	call->timer = g_timeout_add(timeout_ms, host_call_timed_out, call);
	if (fds && fds->len > 0)
		return vial_channel_send_fds(channel, request, fds);
	g_clear_pointer(&fds, g_array_unref);
	vial_channel_send_json(channel, VIAL_WIRE_STREAM_HOST, VIAL_WIRE_OPEN, request);
}
