/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streamed answers: a queue of chunks that libmicrohttpd pulls from as fast as the client takes them. When the queue runs
 * empty, or comes to what may not leave yet (commit.c), the connection is suspended until there is more; when it has been full
 * the producer is told once it is low again.
 */
#include <string.h>

#include "http/internal.h"
#include "util/log.h"

/*
 * What one pull may return. libmicrohttpd allocates this much per answer; large ones keep the system calls few. A chunked
 * answer is pulled into the connection's own memory instead and leaves the block unused.
 */
#define BLOCK_BYTES (128 * 1024)
#define UNUSED_BLOCK_BYTES 64

void vial_reply_stream_clear(VialReplyStream *stream)
{
	if (stream->heartbeat_id)
		g_source_remove(stream->heartbeat_id);
	stream->heartbeat_id = 0;
	g_clear_pointer(&stream->heartbeat, g_bytes_unref);
	g_queue_clear_full(&stream->chunks, (GDestroyNotify)g_bytes_unref);
	stream->head_offset = 0;
	stream->queued_bytes = 0;
}

static gsize take(VialReplyStream *stream, char *buffer, gsize room)
{
	gsize taken = 0;

	while (taken < room && !g_queue_is_empty(&stream->chunks)) {
		gsize size;
		const char *data = g_bytes_get_data(g_queue_peek_head(&stream->chunks), &size);
		gsize n = MIN(size - stream->head_offset, room - taken);
		memcpy(buffer + taken, data + stream->head_offset, n);
		taken += n;
		stream->head_offset += n;
		if (stream->head_offset == size) {
			g_bytes_unref(g_queue_pop_head(&stream->chunks));
			stream->head_offset = 0;
		}
	}
	stream->queued_bytes -= taken;
	return taken;
}

/* What of the queue may leave. */
static gsize available(const VialRequest *request)
{
	const VialReplyStream *stream = &request->stream;
	gint64 limit = vial_commit_limit(request), taken = stream->written_bytes - (gint64)stream->queued_bytes;

	return limit == VIAL_COMMIT_NO_LIMIT ? stream->queued_bytes : (gsize)MAX(limit - taken, 0);
}

static gboolean may_end(const VialRequest *request)
{
	return request->stream.is_ended && vial_commit_limit(request) == VIAL_COMMIT_NO_LIMIT;
}

static void tell_producer(VialRequest *request)
{
	VialReplyStream *stream = &request->stream;

	if (!stream->was_high || stream->queued_bytes >= VIAL_BODY_LOW_BYTES || stream->is_ended)
		return;
	stream->was_high = FALSE;
	if (stream->drained)
		stream->drained(request, stream->drain_data);
}

/*
 * The way to end a connection whose socket is shut down already. An error returned here makes libmicrohttpd 0.9.75 mark the
 * connection as closed but keep it, with its descriptor, until every older idle connection has timed out; an error when it
 * sends cleans up at once. The byte goes nowhere.
 */
static ssize_t discard_byte(char *buffer)
{
	buffer[0] = ' ';
	return 1;
}

static ssize_t pull(void *data, uint64_t position, char *buffer, size_t room)
{
	VialRequest *request = data;
	VialReplyStream *stream = &request->stream;

	if (request->is_gone || stream->is_broken)
		return discard_byte(buffer);
	gsize taken = take(stream, buffer, MIN(room, available(request)));
	if (taken > 0) {
		tell_producer(request);
		return (ssize_t)taken;
	}
	if (may_end(request))
		return MHD_CONTENT_READER_END_OF_STREAM;
	vial_connection_suspend(request->connection);
	return 0;
}

void vial_request_stream_begin(VialRequest *request, unsigned status, const char *content_type, gint64 size_bytes, VialDrainFunc drained,
                               gpointer data)
{
	VialReplyStream *stream = &request->stream;
	uint64_t size = size_bytes < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)size_bytes;
	gsize block = size_bytes >= 0 ? (gsize)CLAMP(size_bytes, 1, BLOCK_BYTES) : request->is_http_1_0 ? BLOCK_BYTES : UNUSED_BLOCK_BYTES;

	if (request->is_answered || request->is_gone) {
		vial_reply_set(request, status, content_type, NULL);
		return;
	}
	stream->is_open = TRUE;
	stream->size_bytes = size_bytes;
	stream->drained = drained;
	stream->drain_data = data;
	vial_reply_set(
		request, status, content_type,
		MHD_create_response_from_callback(size, block, pull, vial_request_ref(request), (MHD_ContentReaderFreeCallback)vial_request_unref));
}

static gboolean accepts_writes(const VialRequest *request)
{
	const VialReplyStream *stream = &request->stream;

	return stream->is_open && !stream->is_ended && !stream->is_broken && !request->is_gone && request->connection;
}

/* The pull that found nothing suspended the connection; in any earlier stage the answer has not started yet. */
static void wake(VialRequest *request)
{
	if (request->stage == STAGE_ANSWERING && (available(request) > 0 || may_end(request)))
		vial_connection_resume(request->connection);
}

gsize vial_request_stream_write(VialRequest *request, GBytes *chunk)
{
	VialReplyStream *stream = &request->stream;
	gsize size = g_bytes_get_size(chunk);

	if (!accepts_writes(request) || size == 0) {
		g_bytes_unref(chunk);
		return stream->queued_bytes;
	}
	vial_commit_mark(request, stream->written_bytes);
	g_queue_push_tail(&stream->chunks, chunk);
	stream->queued_bytes += size;
	stream->written_bytes += (gint64)size;
	if (stream->queued_bytes > VIAL_BODY_HIGH_BYTES)
		stream->was_high = TRUE;
	if (stream->queued_bytes > VIAL_HTTP_QUEUE_LIMIT_BYTES) {
		vial_log_error("http", "a streamed answer outgrew its queue and was cut", "request_id", request->id, "path", request->path);
		stream->is_broken = TRUE;
		vial_connection_break(request->connection);
		return 0;
	}
	wake(request);
	return stream->queued_bytes;
}

void vial_request_stream_end(VialRequest *request)
{
	if (!accepts_writes(request))
		return;
	vial_commit_mark(request, request->stream.written_bytes);
	request->stream.is_ended = TRUE;
	request->gone = NULL;
	wake(request);
}

void vial_request_stream_abort(VialRequest *request)
{
	if (!accepts_writes(request))
		return;
	request->stream.is_broken = TRUE;
	request->gone = NULL;
	vial_connection_break(request->connection);
}
