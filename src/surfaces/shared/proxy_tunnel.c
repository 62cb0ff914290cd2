/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each direction holds at most one window of the wire: what waits for the guest is bounded because the socket is only read
 * while there is room, what waits for the client because credit is given back only for what was written.
 */
#include "surfaces/shared/proxy_tunnel.h"

#include <errno.h>
#include <glib-unix.h>
#include <sys/socket.h>

#define READ_BYTES (64 * 1024)
/* What one turn of the loop may read, so that one flood does not starve the others. */
#define READ_TURNS 4

typedef struct {
	GByteArray *bytes;
	gsize start;
} Buffer;

struct VialTunnel {
	VialUpgraded *upgraded;
	VialOperation *operation;
	int fd;
	guint source;
	GIOCondition condition;
	guint linger;
	Buffer to_client, to_guest;
	gboolean is_client_end, is_guest_end; /* nothing more comes from there */
	gboolean is_client_shut;              /* told of the guest's end */
	gboolean is_over;
	void (*ended)(gpointer data);
	gpointer data;
};

static void update(VialTunnel *tunnel);

static gsize waiting(const Buffer *buffer)
{
	return buffer->bytes->len - buffer->start;
}

static void append(Buffer *buffer, const void *bytes, gsize size)
{
	if (buffer->start > 0) {
		g_byte_array_remove_range(buffer->bytes, 0, (guint)buffer->start);
		buffer->start = 0;
	}
	g_byte_array_append(buffer->bytes, bytes, (guint)size);
}

static void consume(Buffer *buffer, gsize size)
{
	buffer->start += size;
	if (waiting(buffer) == 0) {
		g_byte_array_set_size(buffer->bytes, 0);
		buffer->start = 0;
	}
}

/* Over for both sides: told from the loop, since the owner frees us and may be in the middle of one of our calls. */
static gboolean on_over(gpointer data)
{
	VialTunnel *tunnel = data;

	tunnel->source = 0;
	tunnel->ended(tunnel->data);
	return G_SOURCE_REMOVE;
}

static void end(VialTunnel *tunnel)
{
	if (tunnel->is_over)
		return;
	tunnel->is_over = TRUE;
	g_clear_handle_id(&tunnel->source, g_source_remove);
	tunnel->source = g_idle_add(on_over, tunnel);
}

static void push_to_guest(VialTunnel *tunnel)
{
	gsize piece = MIN(waiting(&tunnel->to_guest), vial_operation_room(tunnel->operation));

	if (piece > 0) {
		vial_operation_write(tunnel->operation, tunnel->to_guest.bytes->data + tunnel->to_guest.start, piece);
		consume(&tunnel->to_guest, piece);
	}
}

static void read_client(VialTunnel *tunnel)
{
	guint8 buffer[READ_BYTES];

	for (int turn = 0; turn < READ_TURNS && waiting(&tunnel->to_guest) == 0 && !tunnel->is_client_end; turn++) {
		gsize room = MIN(vial_operation_room(tunnel->operation), sizeof(buffer));
		ssize_t got = room > 0 ? recv(tunnel->fd, buffer, room, 0) : 0;

		if (room == 0)
			return;
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got < 0) {
			end(tunnel);
			return;
		}
		if (got == 0) {
			tunnel->is_client_end = TRUE;
			vial_operation_write_end(tunnel->operation);
			return;
		}
		vial_operation_write(tunnel->operation, buffer, (gsize)got);
	}
}

static void write_client(VialTunnel *tunnel)
{
	while (waiting(&tunnel->to_client) > 0) {
		ssize_t sent = send(tunnel->fd, tunnel->to_client.bytes->data + tunnel->to_client.start, waiting(&tunnel->to_client), MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			return;
		if (sent < 0) {
			end(tunnel);
			return;
		}
		consume(&tunnel->to_client, (gsize)sent);
		vial_operation_taken(tunnel->operation, (gsize)sent);
	}
	if (tunnel->is_guest_end && !tunnel->is_client_shut) {
		tunnel->is_client_shut = TRUE;
		shutdown(tunnel->fd, SHUT_WR);
	}
}

static gboolean on_ready(int fd, GIOCondition condition, gpointer data)
{
	VialTunnel *tunnel = data;

	if (condition & (G_IO_ERR | G_IO_NVAL)) {
		end(tunnel);
		return G_SOURCE_CONTINUE;
	}
	if (condition & G_IO_OUT)
		write_client(tunnel);
	if (condition & (G_IO_IN | G_IO_HUP))
		read_client(tunnel);
	/* Hung up and nothing to read for: there is nobody to write to either. */
	if ((condition & G_IO_HUP) && !(condition & G_IO_IN))
		end(tunnel);
	update(tunnel);
	return G_SOURCE_CONTINUE;
}

static gboolean on_linger(gpointer data)
{
	VialTunnel *tunnel = data;

	tunnel->linger = 0;
	end(tunnel);
	return G_SOURCE_REMOVE;
}

/* Which events we want now, and whether it is over. */
static void update(VialTunnel *tunnel)
{
	GIOCondition condition = 0;

	if (tunnel->is_over)
		return;
	if (tunnel->is_client_end && tunnel->is_client_shut) {
		end(tunnel);
		return;
	}
	if ((tunnel->is_client_end || tunnel->is_client_shut) && !tunnel->linger)
		tunnel->linger = g_timeout_add_seconds(VIAL_TUNNEL_LINGER_SECONDS, on_linger, tunnel);
	if (!tunnel->is_client_end && waiting(&tunnel->to_guest) == 0 && vial_operation_room(tunnel->operation) > 0)
		condition |= G_IO_IN;
	if (waiting(&tunnel->to_client) > 0)
		condition |= G_IO_OUT;
	if (tunnel->source && tunnel->condition == condition)
		return;
	g_clear_handle_id(&tunnel->source, g_source_remove);
	tunnel->condition = condition;
	tunnel->source = g_unix_fd_add(tunnel->fd, condition, on_ready, tunnel);
}

VialTunnel *vial_tunnel_new(VialUpgraded *upgraded, int fd, VialOperation *operation, void (*ended)(gpointer data), gpointer data)
{
	VialTunnel *tunnel = g_new0(VialTunnel, 1);

	tunnel->upgraded = upgraded;
	tunnel->fd = fd;
	tunnel->operation = operation;
	tunnel->ended = ended;
	tunnel->data = data;
	tunnel->to_client.bytes = g_byte_array_new();
	tunnel->to_guest.bytes = g_byte_array_new();
	update(tunnel);
	return tunnel;
}

void vial_tunnel_free(VialTunnel *tunnel)
{
	if (!tunnel)
		return;
	g_clear_handle_id(&tunnel->source, g_source_remove);
	g_clear_handle_id(&tunnel->linger, g_source_remove);
	vial_upgraded_close(tunnel->upgraded);
	g_byte_array_unref(tunnel->to_client.bytes);
	g_byte_array_unref(tunnel->to_guest.bytes);
	g_free(tunnel);
}

void vial_tunnel_client_data(VialTunnel *tunnel, const void *bytes, gsize size)
{
	append(&tunnel->to_guest, bytes, size);
	push_to_guest(tunnel);
	update(tunnel);
}

void vial_tunnel_guest_data(VialTunnel *tunnel, const void *bytes, gsize size)
{
	append(&tunnel->to_client, bytes, size);
	write_client(tunnel);
	update(tunnel);
}

void vial_tunnel_guest_eof(VialTunnel *tunnel)
{
	tunnel->is_guest_end = TRUE;
	write_client(tunnel);
	update(tunnel);
}

void vial_tunnel_guest_gone(VialTunnel *tunnel)
{
	tunnel->operation = NULL;
	vial_tunnel_guest_eof(tunnel);
}

void vial_tunnel_guest_writable(VialTunnel *tunnel)
{
	push_to_guest(tunnel);
	update(tunnel);
}
