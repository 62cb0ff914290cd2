/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp: a connection to a port inside the sandbox, 127.0.0.1 and then ::1, carried over a stream. Bytes and EOF go both ways; CLOSE comes when both
 * directions have ended, or on a reset. Each direction has its own back-pressure: the stream's credit outwards, the socket's inwards.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"
#include "ops.h"
#include "wire/wire.h"

#define CONNECT_TIMEOUT_MS 10000

struct tunnel {
	struct vial_stream *stream;
	int fd;
	bool is_ipv6, is_connected;
	in_port_t port;
	struct vial_watch watch;
	struct vial_timer timer;
	bool is_blocked; /* no credit: not reading the socket */
	bool is_read_end, is_write_end, is_host_end;
	uint8_t *bytes; /* on the way to the socket; bounded by the stream's credit */
	size_t start, end, capacity;
};

static void on_ready(struct vial_watch *watch, uint32_t events, void *data);
static int start_connect(struct tunnel *tunnel);

static void free_tunnel(struct tunnel *tunnel)
{
	vial_watch_remove(&tunnel->watch);
	vial_timer_clear(&tunnel->timer);
	if (tunnel->fd >= 0)
		close(tunnel->fd);
	free(tunnel->bytes);
	free(tunnel);
}

static void end(struct tunnel *tunnel)
{
	struct vial_stream *stream = tunnel->stream;

	free_tunnel(tunnel);
	vial_stream_close_ok(stream, NULL);
}

static void fail(struct tunnel *tunnel, int error)
{
	struct vial_stream *stream = tunnel->stream;
	int port = ntohs(tunnel->port);
	bool was_connected = tunnel->is_connected;

	free_tunnel(tunnel);
	if (was_connected)
		vial_stream_close_errno(stream, error, "the connection to port %d broke", port);
	else if (error == ECONNREFUSED)
		vial_stream_close_error(stream, VIAL_UNAVAILABLE, "nothing listens on port %d in the sandbox", port);
	else
		vial_stream_close_errno(stream, error, "cannot connect to port %d", port);
}

/* Which events we want now. True unless the tunnel has ended and is gone. */
static bool update(struct tunnel *tunnel)
{
	uint32_t events = 0;

	if (tunnel->is_read_end && tunnel->is_write_end) {
		end(tunnel);
		return false;
	}
	if (!tunnel->is_connected || tunnel->start < tunnel->end)
		events |= EPOLLOUT;
	if (tunnel->is_connected && !tunnel->is_read_end && !tunnel->is_blocked)
		events |= EPOLLIN;
	/* A watch without events still reports a hang-up, again and again; better to have none. */
	if (events == 0)
		vial_watch_remove(&tunnel->watch);
	else if (tunnel->watch.is_added)
		vial_watch_modify(&tunnel->watch, events);
	else
		vial_watch_add(&tunnel->watch, tunnel->fd, events, on_ready, tunnel);
	return true;
}

/* False when the tunnel is gone. */
static bool read_socket(struct tunnel *tunnel)
{
	size_t size;
	uint8_t *space = vial_stream_reserve(tunnel->stream, &size);
	ssize_t got;

	if (!space) {
		tunnel->is_blocked = true;
		vial_stream_wait_writable(tunnel->stream);
		return true;
	}
	got = read(tunnel->fd, space, size);
	vial_stream_commit(tunnel->stream, VIAL_WIRE_MAIN, got > 0 ? (size_t)got : 0);
	if (got == 0) {
		tunnel->is_read_end = true;
		vial_stream_send_eof(tunnel->stream, VIAL_WIRE_MAIN);
	} else if (got < 0 && errno != EAGAIN && errno != EINTR) {
		fail(tunnel, errno);
		return false;
	}
	return true;
}

/* The program reads no more, but may have answered before that: what it said is still read, what it would not hear is dropped. */
static void stop_writing(struct tunnel *tunnel)
{
	vial_stream_consumed(tunnel->stream, tunnel->end - tunnel->start);
	tunnel->start = tunnel->end = 0;
	tunnel->is_write_end = true;
}

static void write_socket(struct tunnel *tunnel)
{
	while (tunnel->start < tunnel->end) {
		ssize_t written = send(tunnel->fd, tunnel->bytes + tunnel->start, tunnel->end - tunnel->start, MSG_NOSIGNAL);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && errno == EAGAIN)
			return;
		if (written < 0) {
			stop_writing(tunnel);
			return;
		}
		tunnel->start += (size_t)written;
		vial_stream_consumed(tunnel->stream, (size_t)written);
	}
	tunnel->start = tunnel->end = 0;
	if (tunnel->is_host_end && !tunnel->is_write_end) {
		shutdown(tunnel->fd, SHUT_WR);
		tunnel->is_write_end = true;
	}
}

static void on_connect_result(struct tunnel *tunnel)
{
	socklen_t size = sizeof(int);
	int error = 0;

	getsockopt(tunnel->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error == 0) {
		tunnel->is_connected = true;
		vial_timer_clear(&tunnel->timer);
		vial_stream_send_event(tunnel->stream, json_pack("{s:s}", "event", "connected"));
		write_socket(tunnel);
		update(tunnel);
		return;
	}
	if (!tunnel->is_ipv6) {
		tunnel->is_ipv6 = true;
		if (start_connect(tunnel) == 0)
			return;
	}
	fail(tunnel, ECONNREFUSED);
}

static void on_ready(struct vial_watch *watch, uint32_t events, void *data)
{
	struct tunnel *tunnel = data;

	if (!tunnel->is_connected) {
		on_connect_result(tunnel);
		return;
	}
	if (events & (EPOLLOUT | EPOLLERR))
		write_socket(tunnel);
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !tunnel->is_read_end && !tunnel->is_blocked && !read_socket(tunnel))
		return;
	update(tunnel);
}

static int start_connect(struct tunnel *tunnel)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = tunnel->port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = tunnel->port, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr *address = tunnel->is_ipv6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t size = tunnel->is_ipv6 ? sizeof(v6) : sizeof(v4);
	int one = 1;

	vial_watch_remove(&tunnel->watch);
	if (tunnel->fd >= 0)
		close(tunnel->fd);
	tunnel->fd = socket(tunnel->is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (tunnel->fd < 0)
		return -errno;
	setsockopt(tunnel->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(tunnel->fd, address, size) < 0 && errno != EINPROGRESS && errno != ECONNREFUSED)
		return -errno;
	/* Refused at once is reported by SO_ERROR too, after the first event. */
	return vial_watch_add(&tunnel->watch, tunnel->fd, EPOLLOUT, on_ready, tunnel);
}

static void on_connect_timeout(struct vial_timer *timer, void *data)
{
	fail(data, ETIMEDOUT);
}

static void on_data(struct vial_stream *stream, uint8_t channel, const uint8_t *bytes, size_t size_bytes)
{
	struct tunnel *tunnel = vial_stream_data(stream);
	size_t waiting = tunnel->end - tunnel->start;

	if (tunnel->is_host_end)
		return;
	if (tunnel->is_write_end) {
		vial_stream_consumed(stream, size_bytes);
		return;
	}
	if (tunnel->start > 0)
		memmove(tunnel->bytes, tunnel->bytes + tunnel->start, waiting);
	tunnel->start = 0;
	tunnel->end = waiting;
	if (waiting + size_bytes > tunnel->capacity) {
		uint8_t *grown = realloc(tunnel->bytes, waiting + size_bytes);

		if (!grown) {
			fail(tunnel, ENOMEM);
			return;
		}
		tunnel->bytes = grown;
		tunnel->capacity = waiting + size_bytes;
	}
	memcpy(tunnel->bytes + tunnel->end, bytes, size_bytes);
	tunnel->end += size_bytes;
	if (tunnel->is_connected) {
		write_socket(tunnel);
		update(tunnel);
	}
}

static void on_eof(struct vial_stream *stream, uint8_t channel)
{
	struct tunnel *tunnel = vial_stream_data(stream);

	tunnel->is_host_end = true;
	if (tunnel->is_connected) {
		write_socket(tunnel);
		update(tunnel);
	}
}

static void on_writable(struct vial_stream *stream)
{
	struct tunnel *tunnel = vial_stream_data(stream);

	tunnel->is_blocked = false;
	update(tunnel);
}

static void on_cancel(struct vial_stream *stream)
{
	end(vial_stream_data(stream));
}

static void on_drop(struct vial_stream *stream)
{
	free_tunnel(vial_stream_data(stream));
}

static const struct vial_stream_handlers handlers = {
	.on_data = on_data, .on_eof = on_eof, .on_writable = on_writable, .on_cancel = on_cancel, .on_drop = on_drop
};

void vial_op_tcp(struct vial_stream *stream, json_t *request)
{
	struct tunnel *tunnel;
	json_int_t port;
	int result;

	if (!vial_request_integer(stream, request, "port", 1, 65535, 0, &port))
		return;
	if (port == 0) {
		vial_stream_close_error(stream, VIAL_INVALID, "the field \"port\" is missing");
		return;
	}
	tunnel = calloc(1, sizeof(*tunnel));
	if (!tunnel) {
		vial_stream_close_errno(stream, ENOMEM, "cannot connect");
		return;
	}
	tunnel->stream = stream;
	tunnel->fd = -1;
	tunnel->port = htons((uint16_t)port);
	vial_stream_set_handlers(stream, &handlers, tunnel);
	vial_timer_set(&tunnel->timer, CONNECT_TIMEOUT_MS, on_connect_timeout, tunnel);
	result = start_connect(tunnel);
	if (result < 0)
		fail(tunnel, -result);
}
