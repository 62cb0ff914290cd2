/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client socket: suspending and resuming it, its deadline, and noticing that the peer left.
 *
 * libmicrohttpd takes a suspended connection out of its epoll set and so learns of nothing; and while it reads, it takes a
 * short read for an empty socket, so that the end of the stream goes unnoticed when it arrives together with the last
 * bytes. We keep every socket in an epoll set of our own, armed one-shot for hang-ups; re-arming at each suspension tells
 * us at once if it happened in between.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/internal.h"

#define WATCH_BATCH 64

void vial_connection_watch(VialConnection *connection)
{
	struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = connection };
	int operation = connection->is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	/* If this fails (out of memory), a vanished client is only noticed by a timeout or when we write to it. */
	if (epoll_ctl(connection->server->watch_fd, operation, connection->fd, &event) == 0)
		connection->is_watched = TRUE;
}

VialConnection *vial_connection_new(VialServer *server, struct MHD_Connection *mhd)
{
	VialConnection *connection = g_new0(VialConnection, 1);

	connection->server = server;
	connection->mhd = mhd;
	connection->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	connection->link.data = connection;
	g_queue_push_tail_link(&server->connections, &connection->link);
	server->stats.connections++;
	vial_shed_add(connection);
	vial_connection_watch(connection);
	return connection;
}

void vial_connection_free(VialConnection *connection)
{
	VialServer *server = connection->server;

	vial_connection_unwatch(connection);
	vial_shed_remove(connection);
	if (server->latest == connection)
		server->latest = NULL;
	g_queue_unlink(&server->connections, &connection->link);
	server->stats.connections--;
	g_free(connection);
}

VialConnection *vial_connection_of(struct MHD_Connection *mhd)
{
	return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void vial_connection_unwatch(VialConnection *connection)
{
	if (connection->is_watched)
		epoll_ctl(connection->server->watch_fd, EPOLL_CTL_DEL, connection->fd, NULL);
	connection->is_watched = FALSE;
}

void vial_connection_suspend(VialConnection *connection)
{
	if (connection->is_suspended)
		return;
	connection->is_suspended = TRUE;
	MHD_suspend_connection(connection->mhd);
	vial_connection_watch(connection);
}

void vial_connection_resume(VialConnection *connection)
{
	if (!connection->is_suspended)
		return;
	connection->is_suspended = FALSE;
	MHD_resume_connection(connection->mhd);
	connection->server->must_run = TRUE;
}

void vial_connection_break(VialConnection *connection)
{
	shutdown(connection->fd, SHUT_RDWR);
	vial_connection_resume(connection);
}

void vial_connection_drop(VialConnection *connection)
{
	if (connection->request)
		vial_request_lose(connection->request);
	vial_connection_break(connection);
}

void vial_connection_set_deadline(VialConnection *connection, unsigned ms)
{
	connection->deadline_us = ms ? g_get_monotonic_time() + (gint64)ms * 1000 : 0;
}

/* Whether the request is still arriving, so that the end of the stream means it never will be whole. */
static gboolean is_receiving(const VialConnection *connection)
{
	return !connection->request || connection->request->stage <= STAGE_BODY;
}

static void check_peer(VialConnection *connection)
{
	char byte;

	if (connection->upgraded) {
		vial_upgraded_peer_left(connection->upgraded);
	} else if (connection->is_suspended && connection->request) {
		vial_connection_drop(connection);
	} else if (is_receiving(connection) && !connection->server->tls_cert) {
		/* Over TLS the last bytes may be inside the TLS library; there the timeout decides. */
		ssize_t n = recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
		if (n == 0)
			vial_connection_break(connection);
		else if (n > 0)
			vial_connection_watch(connection); /* libmicrohttpd has still to read; look again after that */
	}
}

void vial_connections_check_peers(VialServer *server)
{
	struct epoll_event events[WATCH_BATCH];
	int n = epoll_wait(server->watch_fd, events, WATCH_BATCH, 0);

	for (int i = 0; i < n; i++)
		check_peer(events[i].data.ptr);
}
