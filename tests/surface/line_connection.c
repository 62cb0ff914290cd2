/* SPDX-License-Identifier: Apache-2.0 */
#include "line_connection.h"

#include <errno.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES (64 * 1024)

static void update(VialLineConnection *connection);

VialLineConnection *vial_line_connection_ref(VialLineConnection *connection)
{
	connection->refs++;
	return connection;
}

void vial_line_connection_unref(VialLineConnection *connection)
{
	if (--connection->refs > 0)
		return;
	g_byte_array_unref(connection->in);
	g_byte_array_unref(connection->out);
	vial_identity_unref(connection->identity);
	g_free(connection);
}

void vial_line_connection_close(VialLineConnection *connection)
{
	if (connection->fd < 0)
		return;
	g_clear_handle_id(&connection->source, g_source_remove);
	close(connection->fd);
	connection->fd = -1;
	g_clear_pointer(&connection->operation, vial_operation_cancel);
	vial_line_connection_unref(connection);
}

static void write_out(VialLineConnection *connection)
{
	while (connection->out->len > 0) {
		ssize_t sent = send(connection->fd, connection->out->data, connection->out->len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return;
		g_byte_array_remove_range(connection->out, 0, (guint)sent);
	}
	if (connection->was_full) {
		connection->was_full = FALSE;
		vial_operation_drained(connection->operation);
	}
}

/* FALSE when the client has gone. */
static gboolean read_in(VialLineConnection *connection)
{
	guint8 buffer[READ_BYTES];
	ssize_t got = recv(connection->fd, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	g_byte_array_append(connection->in, buffer, (guint)got);
	return got > 0;
}

static void take_commands(VialLineConnection *connection)
{
	while (connection->fd >= 0 && !connection->is_busy && vial_line_take_command(connection))
		;
}

static gboolean on_ready(int fd, GIOCondition condition, gpointer data)
{
	g_autoptr(VialLineConnection) connection = vial_line_connection_ref(data);

	if (condition & G_IO_OUT)
		write_out(connection);
	if ((condition & (G_IO_IN | G_IO_HUP | G_IO_ERR)) && !read_in(connection)) {
		connection->source = 0;
		vial_line_connection_close(connection);
		return G_SOURCE_REMOVE;
	}
	take_commands(connection);
	update(connection);
	return G_SOURCE_CONTINUE;
}

/* A client that is busy is still read, so that we hear it leave. */
static void update(VialLineConnection *connection)
{
	GIOCondition condition = G_IO_IN | (connection->out->len > 0 ? G_IO_OUT : 0);

	if (connection->fd < 0 || (connection->source && connection->condition == condition))
		return;
	g_clear_handle_id(&connection->source, g_source_remove);
	connection->condition = condition;
	connection->source = g_unix_fd_add(connection->fd, condition, on_ready, connection);
}

VialLineConnection *vial_line_connection_new(VialApp *app, int fd)
{
	VialLineConnection *connection = g_new0(VialLineConnection, 1);

	*connection = (VialLineConnection){ .refs = 1, .app = app, .fd = fd, .in = g_byte_array_new(), .out = g_byte_array_new() };
	update(connection);
	return connection;
}

static gboolean queue(VialLineConnection *connection, const void *bytes, gsize size)
{
	if (connection->fd < 0)
		return FALSE;
	g_byte_array_append(connection->out, bytes, (guint)size);
	write_out(connection);
	connection->was_full = connection->out->len > VIAL_LINE_FULL_BYTES;
	update(connection);
	return connection->was_full;
}

gboolean vial_line_send(VialLineConnection *connection, const char *format, ...)
{
	g_autofree char *text = NULL;
	va_list args;

	va_start(args, format);
	text = g_strdup_vprintf(format, args);
	va_end(args);
	return queue(connection, text, strlen(text));
}

gboolean vial_line_send_block(VialLineConnection *connection, const char *name, const void *bytes, gsize size)
{
	vial_line_send(connection, "%s %" G_GSIZE_FORMAT "\n", name, size);
	queue(connection, bytes, size);
	return queue(connection, "\n", 1);
}

static gboolean go_on(gpointer data)
{
	g_autoptr(VialLineConnection) connection = data;

	take_commands(connection);
	return G_SOURCE_REMOVE;
}

void vial_line_done(VialLineConnection *connection)
{
	connection->operation = NULL;
	connection->is_busy = FALSE;
	g_idle_add(go_on, vial_line_connection_ref(connection));
}

void vial_line_refuse(VialLineConnection *connection, const GError *error)
{
	vial_line_send(connection, "refused %s %s\n", vial_error_type(error), error->message);
	vial_line_done(connection);
}
