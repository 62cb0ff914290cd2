/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection half of channel.h: reading and writing frames, credit, and handing them to streams (stream.c holds the
 * calls a stream's owner makes). A callback may free the channel or any stream, so the dispatch loop holds a reference
 * and looks again after each one.
 */
#include "engine/channel.h"

#include <errno.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/channel_private.h"
#include "util/json.h"

#define READS_PER_TURN 16 /* so that one talkative sandbox does not starve the others */
#define MAX_FDS 253 /* the kernel's SCM_MAX_FD */

static void close_one(gpointer fd)
{
	close(*(int *)fd);
}

GArray *vial_fds_new(void)
{
	GArray *fds = g_array_new(FALSE, FALSE, sizeof(int));

	g_array_set_clear_func(fds, close_one);
	return fds;
}

static void outgoing_free(gpointer data)
{
	VialOutgoing *outgoing = data;

	g_bytes_unref(outgoing->bytes);
	g_clear_pointer(&outgoing->fds, g_array_unref);
	g_free(outgoing);
}

static VialOutgoing *outgoing_new(guint8 *bytes, gsize size, GArray *fds)
{
	VialOutgoing *outgoing = g_new0(VialOutgoing, 1);

	outgoing->bytes = g_bytes_new_take(bytes, size);
	outgoing->fds = fds;
	return outgoing;
}

static void channel_unref(VialChannel *channel)
{
	if (--channel->refs > 0)
		return;
	vial_wire_reader_clear(&channel->reader);
	g_hash_table_unref(channel->streams);
	g_hash_table_unref(channel->host_calls);
	g_queue_clear_full(&channel->outgoing, outgoing_free);
	g_queue_clear_full(&channel->held, outgoing_free);
	g_free(channel);
}

static void fail_all(VialChannel *channel, const GError *error)
{
	GHashTableIter iter;
	gpointer value;

	for (;;) {
		g_hash_table_iter_init(&iter, channel->streams);
		if (!g_hash_table_iter_next(&iter, NULL, &value))
			break;
		vial_stream_finish(value, NULL, error);
	}
	for (;;) {
		g_hash_table_iter_init(&iter, channel->host_calls);
		if (!g_hash_table_iter_next(&iter, NULL, &value))
			break;
		vial_host_call_finish(value, NULL, error);
	}
}

static void shut(VialChannel *channel, const char *why, gboolean tell)
{
	g_autoptr(GError) error = NULL;

	if (channel->fd < 0)
		return;
	g_clear_handle_id(&channel->read_watch, g_source_remove);
	g_clear_handle_id(&channel->write_watch, g_source_remove);
	close(channel->fd);
	channel->fd = -1;
	channel->refs++;
	error = g_error_new(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the connection to the sandbox is gone: %s", why);
	fail_all(channel, error);
	if (tell && channel->events.closed)
		channel->events.closed(channel, error, channel->data);
	channel_unref(channel);
}

/* Descriptors go with the first byte that the kernel takes. */
static ssize_t send_with_fds(int fd, const char *bytes, gsize size, const GArray *fds)
{
	union {
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} ancillary = { { 0 } };
	struct iovec piece = { (void *)bytes, size };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = ancillary.bytes,
		.msg_controllen = CMSG_SPACE(fds->len * sizeof(int)),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(fds->len * sizeof(int));
	memcpy(CMSG_DATA(header), fds->data, fds->len * sizeof(int));
	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* Writes what is queued; FALSE when the socket is broken. */
static gboolean flush(VialChannel *channel)
{
	VialOutgoing *head;

	while ((head = g_queue_peek_head(&channel->outgoing))) {
		gsize size;
		const char *bytes = g_bytes_get_data(head->bytes, &size);
		ssize_t written = head->fds ? send_with_fds(channel->fd, bytes, size, head->fds) :
		                              write(channel->fd, bytes + channel->head_offset, size - channel->head_offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return errno == EAGAIN;
		g_clear_pointer(&head->fds, g_array_unref);
		channel->head_offset += (gsize)written;
		if (channel->head_offset < size)
			continue;
		channel->head_offset = 0;
		outgoing_free(g_queue_pop_head(&channel->outgoing));
	}
	return TRUE;
}

static gboolean on_writable(int fd, GIOCondition condition, gpointer data)
{
	VialChannel *channel = data;

	if (!flush(channel)) {
		channel->write_watch = 0;
		shut(channel, "it cannot be written to", TRUE);
		return G_SOURCE_REMOVE;
	}
	if (!g_queue_is_empty(&channel->outgoing))
		return G_SOURCE_CONTINUE;
	channel->write_watch = 0;
	return G_SOURCE_REMOVE;
}

static void watch_writable(VialChannel *channel)
{
	if (!g_queue_is_empty(&channel->outgoing) && !channel->write_watch)
		channel->write_watch = g_unix_fd_add(channel->fd, G_IO_OUT, on_writable, channel);
}

void vial_channel_send(VialChannel *channel, guint32 stream, enum vial_wire_type type, guint8 sub, const void *payload,
                       gsize size)
{
	struct vial_wire_frame frame = { .length = (guint32)size, .stream = stream, .type = (guint8)type, .channel = sub };
	guint8 header[VIAL_WIRE_HEADER_BYTES];
	struct iovec parts[2] = { { header, sizeof header }, { (void *)payload, size } };
	gsize total = sizeof header + size, written = 0;
	guint8 *rest;

	if (channel->fd < 0)
		return;
	vial_wire_header_encode(&frame, header);
	if (channel->is_held && stream != VIAL_WIRE_STREAM_CONNECTION && stream != VIAL_WIRE_STREAM_HOST) {
		rest = g_malloc(total);
		memcpy(rest, header, sizeof header);
		if (size > 0)
			memcpy(rest + sizeof header, payload, size);
		g_queue_push_tail(&channel->held, outgoing_new(rest, total, NULL));
		return;
	}
	if (g_queue_is_empty(&channel->outgoing)) {
		ssize_t result = writev(channel->fd, parts, 2);

		/* A broken socket is noticed by the reader; here it only means that nothing was written. */
		written = result > 0 ? (gsize)result : 0;
		if (written == total)
			return;
	}
	rest = g_malloc(total - written);
	if (written < sizeof header) {
		memcpy(rest, header + written, sizeof header - written);
		if (size > 0)
			memcpy(rest + sizeof header - written, payload, size);
	} else {
		memcpy(rest, (const guint8 *)payload + (written - sizeof header), total - written);
	}
	g_queue_push_tail(&channel->outgoing, outgoing_new(rest, total - written, NULL));
	watch_writable(channel);
}

void vial_channel_send_fds(VialChannel *channel, json_t *message, GArray *fds)
{
	g_autofree char *text = vial_json_dump(message);
	struct vial_wire_frame frame = { .length = (guint32)strlen(text), .stream = VIAL_WIRE_STREAM_HOST, .type = VIAL_WIRE_OPEN };
	guint8 *bytes = g_malloc(VIAL_WIRE_HEADER_BYTES + frame.length);

	g_assert(fds->len <= MAX_FDS);
	json_decref(message);
	vial_wire_header_encode(&frame, bytes);
	memcpy(bytes + VIAL_WIRE_HEADER_BYTES, text, frame.length);
	g_queue_push_tail(&channel->outgoing, outgoing_new(bytes, VIAL_WIRE_HEADER_BYTES + frame.length, fds));
	if (channel->fd >= 0)
		watch_writable(channel);
}

void vial_channel_hold(VialChannel *channel, gboolean is_held)
{
	VialOutgoing *frame;

	channel->is_held = is_held;
	if (is_held || channel->fd < 0)
		return;
	while ((frame = g_queue_pop_head(&channel->held)))
		g_queue_push_tail(&channel->outgoing, frame);
	watch_writable(channel);
}

void vial_channel_send_json(VialChannel *channel, guint32 stream, enum vial_wire_type type, json_t *message)
{
	g_autofree char *text = vial_json_dump(message);
	gsize size = strlen(text);

	json_decref(message);
	g_return_if_fail(size <= VIAL_WIRE_MAX_PAYLOAD); /* only our own small messages come this way */
	vial_channel_send(channel, stream, type, 0, text, size);
}

static gboolean handle_connection_frame(VialChannel *channel, const struct vial_wire_frame *frame)
{
	g_autoptr(json_t) message = NULL;

	if (frame->type == VIAL_WIRE_PONG)
		return TRUE;
	if (frame->type == VIAL_WIRE_FREEZE) {
		if (channel->events.frozen)
			channel->events.frozen(channel, channel->data);
		return TRUE;
	}
	if (frame->type != VIAL_WIRE_HELLO)
		return FALSE;
	message = vial_json_parse_object((const char *)frame->payload, frame->length, NULL);
	if (!message)
		return FALSE;
	if (channel->events.hello)
		channel->events.hello(channel, message, channel->data);
	return TRUE;
}

static gboolean handle_host_frame(VialChannel *channel, const struct vial_wire_frame *frame)
{
	g_autoptr(json_t) message = vial_json_parse_object((const char *)frame->payload, frame->length, NULL);
	VialHostCall *call;

	if (!message)
		return FALSE;
	if (frame->type == VIAL_WIRE_EVENT) {
		if (channel->events.host_event)
			channel->events.host_event(channel, message, channel->data);
		return TRUE;
	}
	call = g_hash_table_lookup(channel->host_calls,
	                           GUINT_TO_POINTER((guint)json_integer_value(json_object_get(message, "tag"))));
	if (call)
		vial_host_call_finish(call, message, NULL);
	return TRUE;
}

/* TRUE unless the guest broke the contract. */
static gboolean handle_frame(VialChannel *channel, const struct vial_wire_frame *frame)
{
	VialStream *stream;

	if (frame->stream == VIAL_WIRE_STREAM_CONNECTION)
		return handle_connection_frame(channel, frame);
	if (frame->stream == VIAL_WIRE_STREAM_HOST)
		return handle_host_frame(channel, frame);
	stream = g_hash_table_lookup(channel->streams, GUINT_TO_POINTER(frame->stream));
	/* A stream we have freed may still have frames under way until its CLOSE; one we never opened may not. */
	return stream ? vial_stream_handle(stream, frame) : frame->stream < channel->next_stream;
}

static gboolean on_readable(int fd, GIOCondition condition, gpointer data)
{
	VialChannel *channel = data;
	gboolean keep = G_SOURCE_CONTINUE;

	channel->refs++;
	for (int i = 0; i < READS_PER_TURN && channel->fd >= 0; i++) {
		struct vial_wire_frame frame;
		gsize size;
		guint8 *space = vial_wire_reader_space(&channel->reader, &size);
		ssize_t got = read(channel->fd, space, size);
		int result = 0;

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (got <= 0) {
			channel->read_watch = 0;
			keep = G_SOURCE_REMOVE;
			shut(channel, "its host process closed it", TRUE);
			break;
		}
		vial_wire_reader_filled(&channel->reader, (gsize)got);
		while (channel->fd >= 0 && (result = vial_wire_reader_next(&channel->reader, &frame)) > 0)
			if (!handle_frame(channel, &frame)) {
				result = -EPROTO;
				break;
			}
		if (channel->fd >= 0 && result < 0) {
			channel->read_watch = 0;
			keep = G_SOURCE_REMOVE;
			shut(channel, "the guest broke the protocol", TRUE);
		}
	}
	if (channel->fd < 0)
		keep = G_SOURCE_REMOVE;
	channel_unref(channel);
	return keep;
}

VialChannel *vial_channel_new(int fd, const VialChannelEvents *events, gpointer data)
{
	VialChannel *channel = g_new0(VialChannel, 1);

	channel->refs = 1;
	channel->fd = fd;
	channel->events = *events;
	channel->data = data;
	channel->next_stream = 1;
	channel->next_tag = 1;
	channel->streams = g_hash_table_new(NULL, NULL);
	channel->host_calls = g_hash_table_new(NULL, NULL);
	g_queue_init(&channel->outgoing);
	g_queue_init(&channel->held);
	if (vial_wire_reader_init(&channel->reader) < 0)
		g_error("out of memory");
	g_unix_set_fd_nonblocking(fd, TRUE, NULL);
	channel->read_watch = g_unix_fd_add(fd, G_IO_IN | G_IO_HUP | G_IO_ERR, on_readable, channel);
	return channel;
}

void vial_channel_free(VialChannel *channel)
{
	g_autoptr(GError) error = NULL;

	if (!channel)
		return;
	shut(channel, "it was closed", FALSE);
	/* Calls made after the socket was gone still wait to hear so. */
	error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the connection to the sandbox is gone");
	fail_all(channel, error);
	channel_unref(channel);
}

guint vial_channel_open_streams(const VialChannel *channel)
{
	return g_hash_table_size(channel->streams);
}

void vial_channel_send_hello(VialChannel *channel, json_t *message)
{
	vial_channel_send_json(channel, VIAL_WIRE_STREAM_CONNECTION, VIAL_WIRE_HELLO, message);
}

void vial_channel_send_freeze(VialChannel *channel)
{
	vial_channel_send(channel, VIAL_WIRE_STREAM_CONNECTION, VIAL_WIRE_FREEZE, 0, NULL, 0);
}
