/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that leave HTTP. Over TLS libmicrohttpd hands out one end of a socket pair and moves the bytes itself, so the
 * code above always sees a plain non-blocking socket. It does not pass on that the client left; we watch for that.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "http/internal.h"
#include "util/fd.h"

/* After the client of a TLS connection left: time for its last bytes to come through the socket pair. */
#define LAST_BYTES_MS 200

struct VialUpgraded {
	VialServer *server;
	VialConnection *connection;
	VialIdentity *identity; /* whose it is, or NULL: the request may be gone by now */
	guint end_id;
	struct MHD_UpgradeResponseHandle *handle;
	int fd;
	GList link;
};

static void on_upgraded(void *unused, struct MHD_Connection *mhd, void *request_pointer, const char *extra, size_t extra_size, MHD_socket fd,
                        struct MHD_UpgradeResponseHandle *handle)
{
	VialRequest *request = request_pointer;
	VialServer *server = request->server;
	VialUpgraded *upgraded = g_new0(VialUpgraded, 1);

	*upgraded = (VialUpgraded){ .server = server, .connection = request->connection, .handle = handle, .fd = fd };
	upgraded->link.data = upgraded;
	if (request->identity)
		upgraded->identity = vial_identity_ref(request->identity);
	g_queue_push_tail_link(&server->upgraded, &upgraded->link);
	server->stats.upgraded++;
	server->stats.requests--;
	request->is_upgraded = TRUE;
	request->gone = NULL;
	request->connection->upgraded = upgraded;
	if (server->tls_cert)
		vial_connection_watch(request->connection);
	else
		vial_connection_unwatch(request->connection); /* the owner of the socket sees it for himself */
	/* libmicrohttpd turns Nagle's algorithm back on here, which would hold up every key stroke of a terminal. */
	setsockopt(request->connection->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	/* Once upgraded no timeout of libmicrohttpd watches over it; a peer whose machine died is found out by the kernel. */
	setsockopt(request->connection->fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
	setsockopt(request->connection->fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ 60 }, sizeof(int));
	vial_fd_set_nonblocking(fd, NULL);
	request->upgrade_ready(upgraded, fd, g_bytes_new(extra, extra_size), request->upgrade_data);
}

void vial_request_upgrade(VialRequest *request, const char *const *headers, VialUpgradeFunc ready, gpointer data)
{
	if (request->is_http_1_0) {
		vial_request_reply_fail(request, VIAL_ERROR_INVALID, "this route needs HTTP/1.1");
		return;
	}
	for (gsize i = 0; headers && headers[i] && headers[i + 1]; i += 2)
		vial_request_set_header(request, headers[i], headers[i + 1]);
	request->upgrade_ready = ready;
	request->upgrade_data = data;
	/* Adds "Connection: Upgrade" itself. */
	vial_reply_set(request, MHD_HTTP_SWITCHING_PROTOCOLS, NULL, MHD_create_response_for_upgrade(on_upgraded, NULL));
}

void vial_upgraded_close(VialUpgraded *upgraded)
{
	if (!upgraded)
		return;
	g_queue_unlink(&upgraded->server->upgraded, &upgraded->link);
	upgraded->server->stats.upgraded--;
	upgraded->connection->upgraded = NULL;
	if (upgraded->end_id)
		g_source_remove(upgraded->end_id);
	MHD_upgrade_action(upgraded->handle, MHD_UPGRADE_ACTION_CLOSE);
	upgraded->server->must_run = TRUE;
	vial_identity_unref(upgraded->identity);
	g_free(upgraded);
}

static gboolean end_reading(gpointer data)
{
	VialUpgraded *upgraded = data;

	upgraded->end_id = 0;
	shutdown(upgraded->fd, SHUT_RD); /* what is in the pair can still be read, then comes the end */
	return G_SOURCE_REMOVE;
}

void vial_upgraded_peer_left(VialUpgraded *upgraded)
{
	if (!upgraded->end_id)
		upgraded->end_id = g_timeout_add(LAST_BYTES_MS, end_reading, upgraded);
}

/* At the end: makes each owner see the end of its socket, and close. */
void vial_upgraded_close_all(VialServer *server)
{
	for (GList *l = server->upgraded.head; l; l = l->next)
		shutdown(((VialUpgraded *)l->data)->fd, SHUT_RDWR);
}

/* Over TLS the client has a socket of its own, which does not wait until the owner of this one has closed it. */
void vial_upgraded_cut_ended(VialServer *server)
{
	for (GList *l = server->upgraded.head; l; l = l->next) {
		VialUpgraded *upgraded = l->data;
		if (!upgraded->identity || !upgraded->identity->has_ended)
			continue;
		shutdown(upgraded->fd, SHUT_RDWR);
		shutdown(upgraded->connection->fd, SHUT_RDWR);
	}
}
