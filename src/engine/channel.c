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
#include "util/watch.h"

#define READS_PER_TURN 16 /* so that one talkative sandbox does not starve the others */
#define MAX_FDS 253       /* the kernel's SCM_MAX_FD */

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
	g_free(channel->violation);
	g_hash_table_unref(channel->ending);
	g_hash_table_unref(channel->streams);
	g_hash_table_unref(channel->host_calls);
	g_queue_clear_full(&channel->outgoing, outgoing_free);
	g_queue_clear_full(&channel->held, outgoing_free);
	g_free(channel);
}

void vial_channel_end_streams(VialChannel *channel, const GError *error)
{
	GHashTableIter iter;
	gpointer value;

	for (;;) {
		g_hash_table_iter_init(&iter, channel->streams);
		if (!g_hash_table_iter_next(&iter, NULL, &value))
			break;
		vial_stream_finish(value, NULL, error);
	}
}

static void fail_all(VialChannel *channel, const GError *error)
{
	GHashTableIter iter;
	gpointer value;

	vial_channel_end_streams(channel, error);
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
	g_clear_handle_id(&channel->read_watch, vial_watch_remove);
	g_clear_handle_id(&channel->write_watch, g_source_remove);
	g_clear_handle_id(&channel->violation_source, g_source_remove);
	close(channel->fd);
	channel->fd = -1;
	channel->refs++;
	if (channel->violation)
		error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_GATEWAY, channel->violation);
	else
		error = g_error_new(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the connection to the sandbox is gone: %s", why);
	fail_all(channel, error);
	if (tell && channel->events.closed)
		channel->events.closed(channel, error, channel->data);
	channel_unref(channel);
}

static gboolean on_violation(gpointer data)
{
	VialChannel *channel = data;

	channel->violation_source = 0;
	shut(channel, NULL, TRUE);
	return G_SOURCE_REMOVE;
}

/* From the loop: whoever found the lie is in the middle of something. The first one counts. */
static void accuse(VialChannel *channel, const char *who, const char *what)
{
	if (channel->fd < 0 || channel->violation)
		return;
	channel->violation = g_strdup_printf("%s broke the protocol: %s", who, what);
	channel->violation_source = g_idle_add_full(G_PRIORITY_DEFAULT, on_violation, channel, NULL);
}

static void accuse_agent(VialChannel *channel, const char *what)
{
	accuse(channel, "its agent", what);
}

static void accuse_host(VialChannel *channel, const char *what)
{
	accuse(channel, "its host process", what);
}

void vial_channel_violation(VialChannel *channel, const char *what)
{
	if (channel)
		accuse_agent(channel, what);
}

json_t *vial_channel_parse(const void *bytes, gsize size)
{
	return vial_message_is_bounded(bytes, size) ? vial_json_parse_object(bytes, size, NULL) : NULL;
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
		ssize_t written = head->fds ? send_with_fds(channel->fd, bytes, size, head->fds)
		                            : write(channel->fd, bytes + channel->head_offset, size - channel->head_offset);

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

void vial_channel_send(VialChannel *channel, guint32 stream, enum vial_wire_type type, guint8 sub, const void *payload, gsize size)
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

static void handle_hello(VialChannel *channel, const struct vial_wire_frame *frame)
{
	g_autoptr(json_t) message = vial_channel_parse(frame->payload, frame->length);
	g_autoptr(GError) error = NULL;
	VialAgentHello hello = { 0 };

	if (!message || !vial_message_hello(message, &hello, &error))
		return accuse_agent(channel, error ? error->message : "a HELLO that is not a JSON object");
	/* One that the last viald asked for may still be under way when we come; later ones are nobody's. */
	if (channel->hellos_due == 0) {
		if (channel->has_confirmed)
			accuse_agent(channel, "a HELLO that nobody asked for");
	} else {
		channel->hellos_due--;
		channel->has_confirmed = TRUE;
		if (channel->events.hello)
			channel->events.hello(channel, &hello, channel->data);
	}
	vial_agent_hello_clear(&hello);
}

static void handle_frozen(VialChannel *channel)
{
	if (channel->freezes_due == 0) {
		if (channel->has_confirmed)
			accuse_agent(channel, "a FREEZE that nobody asked for");
		return;
	}
	channel->freezes_due--;
	if (channel->events.frozen)
		channel->events.frozen(channel, channel->data);
}

static void handle_connection_frame(VialChannel *channel, const struct vial_wire_frame *frame)
{
	if (frame->type == VIAL_WIRE_HELLO)
		handle_hello(channel, frame);
	else if (frame->type == VIAL_WIRE_FREEZE)
		handle_frozen(channel);
	else if (frame->type != VIAL_WIRE_PONG)
		accuse_agent(channel, "a frame that only the host may send");
}

static void handle_host_answer(VialChannel *channel, json_t *message)
{
	g_autoptr(GError) refusal = NULL, error = NULL;
	VialHostCall *call;
	guint tag;

	if (!vial_message_host_answer(message, channel->next_tag - 1, &tag, &refusal, &error))
		return accuse_host(channel, error->message);
	/* None: it was given up waiting for. */
	call = g_hash_table_lookup(channel->host_calls, GUINT_TO_POINTER(tag));
	if (call)
		vial_host_call_finish(call, refusal ? NULL : message, refusal);
}

static void handle_host_frame(VialChannel *channel, const struct vial_wire_frame *frame)
{
	g_autoptr(json_t) message = vial_channel_parse(frame->payload, frame->length);
	g_autoptr(GError) error = NULL;
	const char *state;

	if (!message || (frame->type != VIAL_WIRE_EVENT && frame->type != VIAL_WIRE_CLOSE))
		return accuse_host(channel, "a message that is neither its state nor an answer");
	if (frame->type == VIAL_WIRE_CLOSE)
		return handle_host_answer(channel, message);
	state = vial_message_state(message, &error);
	if (!state)
		accuse_host(channel, error->message);
	else if (channel->events.host_state)
		channel->events.host_state(channel, state, channel->data);
}

static void handle_stream_frame(VialChannel *channel, const struct vial_wire_frame *frame)
{
	gpointer id = GUINT_TO_POINTER(frame->stream);
	VialStream *stream = g_hash_table_lookup(channel->streams, id);
	const char *lie;

	if (stream) {
		lie = vial_stream_handle(stream, frame);
		if (lie)
			accuse_agent(channel, lie);
		return;
	}
	/* Whoever opened it has left, and has sent CANCEL: what is under way until its CLOSE has no reader. */
	if (!g_hash_table_contains(channel->ending, id))
		return accuse_agent(channel, frame->stream < channel->next_stream ? "a frame on a stream that it had closed"
		                                                                  : "a frame on a stream that was never opened");
	if (frame->type == VIAL_WIRE_CLOSE)
		g_hash_table_remove(channel->ending, id);
}

static void handle_frame(VialChannel *channel, const struct vial_wire_frame *frame)
{
	if (frame->stream == VIAL_WIRE_STREAM_CONNECTION)
		handle_connection_frame(channel, frame);
	else if (frame->stream == VIAL_WIRE_STREAM_HOST)
		handle_host_frame(channel, frame);
	else
		handle_stream_frame(channel, frame);
}

static pid_t sender_of(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	struct ucred sender = { 0 };

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS && header->cmsg_len == CMSG_LEN(sizeof sender))
		memcpy(&sender, CMSG_DATA(header), sizeof sender);
	return sender.pid;
}

/* The first bytes come with their writer's number, put there by the kernel. Descriptors that a liar adds do not fit and are dropped. */
static ssize_t receive_first(VialChannel *channel, guint8 *space, gsize size)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} ancillary = { { 0 } };
	struct iovec piece = { space, size };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = ancillary.bytes, .msg_controllen = sizeof ancillary.bytes };
	ssize_t got = recvmsg(channel->fd, &message, MSG_CMSG_CLOEXEC);

	if (got <= 0)
		return got;
	channel->peer = sender_of(&message);
	setsockopt(channel->fd, SOL_SOCKET, SO_PASSCRED, &(int){ 0 }, sizeof(int));
	return got;
}

/* Frames of what has been read so far, up to the first lie. */
static void handle_frames(VialChannel *channel)
{
	struct vial_wire_frame frame;
	int result = 0;

	while (channel->fd >= 0 && !channel->violation && (result = vial_wire_reader_next(&channel->reader, &frame)) > 0)
		handle_frame(channel, &frame);
	if (result < 0)
		accuse_agent(channel, "bytes that are no frame");
}

static gboolean on_readable(int fd, GIOCondition condition, gpointer data)
{
	VialChannel *channel = data;
	gboolean is_open;

	channel->refs++;
	for (int i = 0; i < READS_PER_TURN && channel->fd >= 0; i++) {
		gsize size;
		guint8 *space = vial_wire_reader_space(&channel->reader, &size);
		ssize_t got = channel->peer ? read(channel->fd, space, size) : receive_first(channel, space, size);

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (got <= 0) {
			shut(channel, "its host process closed it", TRUE);
			break;
		}
		vial_wire_reader_filled(&channel->reader, (gsize)got);
		handle_frames(channel);
		if (channel->violation)
			shut(channel, NULL, TRUE);
	}
	is_open = channel->fd >= 0;
	channel_unref(channel);
	return is_open ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
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
	channel->ending = g_hash_table_new(NULL, NULL);
	channel->host_calls = g_hash_table_new(NULL, NULL);
	g_queue_init(&channel->outgoing);
	g_queue_init(&channel->held);
	if (vial_wire_reader_init(&channel->reader) < 0)
		g_error("out of memory");
	g_unix_set_fd_nonblocking(fd, TRUE, NULL);
	/* Already set by whoever connected, before the other end could write; a pair of sockets in a test has it from here on. */
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int));
	channel->read_watch = vial_watch_add(G_PRIORITY_DEFAULT, fd, G_IO_IN | G_IO_HUP | G_IO_ERR, on_readable, channel, NULL);
	return channel;
}

void vial_channel_free(VialChannel *channel)
{
	g_autoptr(GError) error = NULL;

	if (!channel)
		return;
	/* We may be here from within shut(), by way of a call that failed: it must not report to an owner who is gone. */
	channel->events = (VialChannelEvents){ 0 };
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

pid_t vial_channel_peer(const VialChannel *channel)
{
	return channel->peer;
}

void vial_channel_send_hello(VialChannel *channel, json_t *message)
{
	channel->hellos_due++;
	vial_channel_send_json(channel, VIAL_WIRE_STREAM_CONNECTION, VIAL_WIRE_HELLO, message);
}

void vial_channel_send_freeze(VialChannel *channel)
{
	channel->freezes_due++;
	vial_channel_send(channel, VIAL_WIRE_STREAM_CONNECTION, VIAL_WIRE_FREEZE, 0, NULL, 0);
}
