/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals that libmicrohttpd 0.9.75 gets wrong. A Content-Length that is no number, or a Cookie too large for its memory, it
 * refuses by itself between the last header and our first call, and then forgets that it has: the head of its answer goes
 * out twice. The one moment at which we learn of it is the line it logs on the way. There we answer in its place and shut
 * the socket down, so that what it wants to send comes to nothing and it lets go of the connection.
 */
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/socket.h>

#include "http/internal.h"
#include "util/json.h"

/* What of a body has arrived is read before we hang up: unread bytes would make the kernel reset the connection, answer and all. */
#define DRAIN_BYTES (256 * 1024)

/* libmicrohttpd is just now between its last header and our first call, and has no answer of its own yet. */
static gboolean is_being_judged(const VialConnection *connection)
{
	return connection && connection->request && connection->request->stage == STAGE_LINE && !connection->request->is_answered &&
	       MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE) &&
	       !MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
}

static VialConnection *find_judged(VialServer *server)
{
	/* Nearly always it is the one whose request line came last. */
	if (is_being_judged(server->latest))
		return server->latest;
	for (GList *l = server->connections.head; l; l = l->next)
		if (is_being_judged(l->data))
			return l->data;
	return NULL;
}

static const char *describe(const VialConnection *connection, unsigned *out_status)
{
	const char *length = MHD_lookup_connection_value(connection->mhd, MHD_HEADER_KIND, "Content-Length");

	*out_status = MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
	if (!length || vial_headers_is_number(length))
		return "the headers are too large";
	*out_status = MHD_HTTP_BAD_REQUEST;
	return "Content-Length must be a number of bytes";
}

static GString *compose(VialRequest *request, unsigned status, const char *sentence)
{
	g_autoptr(json_t) body = vial_reply_error_body(request, status, "invalid", sentence);
	g_autofree char *text = vial_json_dump(body);
	GString *out = g_string_new(NULL);

	g_string_append_printf(out,
	                       "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\nX-Request-Id: %s\r\n"
	                       "Content-Length: %" G_GSIZE_FORMAT "\r\n\r\n%s",
	                       status, MHD_get_reason_phrase_for(status), request->id, strlen(text), text);
	return out;
}

static void drain(int fd)
{
	char scrap[4096];
	gsize taken = 0;
	ssize_t n;

	while (taken < DRAIN_BYTES && (n = recv(fd, scrap, sizeof(scrap), MSG_DONTWAIT)) > 0)
		taken += (gsize)n;
}

static void send_and_hang_up(VialConnection *connection, const GString *answer)
{
	const union MHD_ConnectionInfo *info =
		connection->server->tls_cert ? MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION) : NULL;

	/* It fits into an empty socket's buffer; a client that has filled that with unread answers gets none. */
	if (info) {
		gnutls_record_send(info->tls_session, answer->str, answer->len);
		gnutls_bye(info->tls_session, GNUTLS_SHUT_WR);
	} else {
		(void)!send(connection->fd, answer->str, answer->len, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	drain(connection->fd);
	shutdown(connection->fd, SHUT_RDWR);
}

void vial_refuse_in_place(VialServer *server)
{
	VialConnection *connection = find_judged(server);
	VialRequest *request = connection ? connection->request : NULL;
	unsigned status;

	if (!request)
		return;
	request->is_answered = TRUE;
	vial_request_set_id(request);
	const char *sentence = describe(connection, &status);
	request->status = status;
	g_autoptr(GString) answer = compose(request, status, sentence);
	send_and_hang_up(connection, answer);
}
