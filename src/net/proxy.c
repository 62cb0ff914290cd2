/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transparent proxy of one slot. The gate's rules divert TCP to ports 80 and 443 here when names decide; where the
 * guest wanted to go is asked of connection tracking. It reads the first bytes, finds the name in the TLS hello or the
 * Host header, has it judged together with the address, and only then connects to exactly that address. Nothing is
 * decrypted, nothing is changed.
 *
 *   SNIFFING ──verdict allow──> CONNECTING ──connected──> RELAYING ──both ends done──> gone
 *       └──deny, nonsense, silence──> reset
 *
 * Main thread; bytes move on the relay thread.
 */
#include <errno.h>
#include <glib-unix.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/httpguard.h"
#include "net/internal.h"
#include "net/netns.h"
#include "net/relay.h"
#include "net/rules.h"
#include "net/tls.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/time.h"
#include "util/watch.h"

#define ACCEPTS_PER_TURN 16
#define MAX_CONNECTIONS 4096
#define SNIFF_MS 10000
/* Where a baseline lets the address through anyway, a protocol in which the server speaks first need not wait so long. */
#define SNIFF_BASELINE_MS 1000
#define CONNECT_MS 15000
#define KEEPALIVE_SECONDS 60
/* From linux/netfilter_ipv4.h and netfilter_ipv6/ip6_tables.h, which do not go together with netinet/in.h. */
#define SO_ORIGINAL_DST 80
#define IP6T_SO_ORIGINAL_DST 80

struct VialProxy {
	VialNetSlot *slot; /* NULL once freed; connections may outlive it for a moment */
	int fd;
	guint watch;
	GHashTable *connections; /* Connection */
};

typedef struct {
	VialProxy *proxy; /* NULL: the slot is gone, only the relay's end is awaited */
	int client_fd, server_fd;
	guint source, timer;
	GByteArray *first; /* what came from the client and goes to the server first */
	VialHttpGuard *guard;
	VialAddress address;
	guint16 port, guest_port;
	char *name; /* as the client said; NULL: none */
	VialRelay *relay;
	guint64 event;
} Connection;

/* ---- the end ---- */

static void reset(int fd)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void stop_waiting(Connection *connection)
{
	g_clear_handle_id(&connection->source, g_source_remove);
	g_clear_handle_id(&connection->timer, g_source_remove);
}

static void connection_free(Connection *connection)
{
	stop_waiting(connection);
	reset(connection->client_fd);
	reset(connection->server_fd);
	vial_fd_clear(&connection->client_fd);
	vial_fd_clear(&connection->server_fd);
	g_byte_array_unref(connection->first);
	vial_http_guard_free(connection->guard);
	g_free(connection->name);
	g_free(connection);
}

static void drop(Connection *connection)
{
	if (connection->proxy) {
		if (connection->event)
			vial_events_close(connection->proxy->slot->events, connection->event, 0, 0);
		g_hash_table_remove(connection->proxy->connections, connection);
	}
	connection_free(connection);
}

static void on_relay_done(guint64 bytes_in, guint64 bytes_out, gpointer data)
{
	Connection *connection = data;

	if (connection->proxy) {
		vial_events_close(connection->proxy->slot->events, connection->event, bytes_in, bytes_out);
		g_hash_table_remove(connection->proxy->connections, connection);
	}
	connection_free(connection);
}

/* ---- the verdict ---- */

static VialNetVerdict judge(Connection *connection)
{
	VialNetSlot *slot = connection->proxy->slot;
	const char *name = connection->name;
	gboolean is_answered = name && vial_answers_has(slot->answers, name, &connection->address, vial_time_monotonic_ms());
	VialNetVerdict verdict = vial_slot_judge(slot, is_answered ? name : NULL, name, &connection->address, connection->port);

	if (!verdict.allowed && verdict.by == VIAL_NET_BY_BASELINE && name && !is_answered &&
	    vial_net_policy_check_name_port(slot->policy, name, connection->port).allowed)
		verdict.reason = "our resolver did not give this address to the sandbox for that name";
	return verdict;
}

static void note(Connection *connection, const VialNetVerdict *verdict)
{
	VialNetSlot *slot = connection->proxy->slot;
	VialEventFacts facts = {
		.kind = verdict->allowed ? VIAL_EVENT_CONNECTION : VIAL_EVENT_REFUSED,
		.protocol = "tcp",
		.name = connection->name,
		.address = connection->address,
		.port = connection->port,
		.guest_port = connection->guest_port,
		.is_allowed = verdict->allowed,
		.rule = verdict->rule,
		.reason = verdict->allowed ? NULL : verdict->reason,
	};
	guint64 event = vial_events_add(slot->events, &facts);

	if (verdict->allowed) {
		connection->event = event;
		slot->counters.connections_allowed++;
	} else {
		slot->counters.connections_denied++;
	}
}

static void refuse(Connection *connection, VialNetVerdict verdict)
{
	note(connection, &verdict);
	drop(connection);
}

/* ---- connecting ---- */

static void tune(int fd)
{
	int on = 1;
	int seconds = KEEPALIVE_SECONDS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
}

static gboolean on_timeout(gpointer data)
{
	Connection *connection = data;

	connection->timer = 0;
	drop(connection);
	return G_SOURCE_REMOVE;
}

static gboolean on_connected(gint fd, GIOCondition condition, gpointer data)
{
	Connection *connection = data;
	int problem = 0;
	socklen_t size = sizeof(problem);

	connection->source = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) < 0 || problem) {
		drop(connection);
		return G_SOURCE_REMOVE;
	}
	stop_waiting(connection);
	connection->relay = vial_relay_start(vial_fd_steal(&connection->client_fd), vial_fd_steal(&connection->server_fd),
	                                     g_steal_pointer(&connection->guard), connection->first, on_relay_done, connection);
	g_byte_array_set_size(connection->first, 0);
	return G_SOURCE_REMOVE;
}

/* From the gate's namespace: what the host's wall and the rate limit say holds for the proxy's connections too. */
static void connect_on(Connection *connection)
{
	struct sockaddr_storage address;
	socklen_t length = vial_address_to_sockaddr(&connection->address, connection->port, &address);
	int mark = VIAL_MARK_OUTGOING;

	stop_waiting(connection);
	connection->server_fd = vial_netns_socket(connection->proxy->slot->gate_fd, connection->address.family, SOCK_STREAM, 0, NULL);
	if (connection->server_fd < 0 || setsockopt(connection->server_fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0) {
		drop(connection);
		return;
	}
	tune(connection->server_fd);
	if (connect(connection->server_fd, (struct sockaddr *)&address, length) < 0 && errno != EINPROGRESS) {
		drop(connection);
		return;
	}
	connection->source = g_unix_fd_add(connection->server_fd, G_IO_OUT | G_IO_ERR | G_IO_HUP, on_connected, connection);
	connection->timer = g_timeout_add(CONNECT_MS, on_timeout, connection);
}

static void decide(Connection *connection)
{
	VialNetVerdict verdict = judge(connection);

	if (!verdict.allowed) {
		refuse(connection, verdict);
		return;
	}
	note(connection, &verdict);
	connect_on(connection);
}

/* ---- sniffing ---- */

/* What the client says first. MORE while it is not enough; bytes that may be sent on end up in `first`. */
static VialSniff sniff(Connection *connection, const guint8 *bytes, gsize size)
{
	char name[VIAL_NAME_MAX + 1];
	VialSniff result;

	if (connection->first->len == 0 && !connection->guard && bytes[0] != 22 && g_ascii_isupper(bytes[0]))
		connection->guard = vial_http_guard_new();
	if (connection->guard) {
		const char *host;

		if (!vial_http_guard_feed(connection->guard, bytes, size, connection->first))
			return VIAL_SNIFF_OTHER;
		host = vial_http_guard_name(connection->guard);
		if (!host)
			return VIAL_SNIFF_MORE;
		connection->name = *host ? g_strdup(host) : NULL;
		return *host ? VIAL_SNIFF_NAME : VIAL_SNIFF_NO_NAME;
	}
	g_byte_array_append(connection->first, bytes, (guint)size);
	result = vial_tls_sniff(connection->first->data, connection->first->len, name);
	if (result == VIAL_SNIFF_NAME)
		connection->name = g_strdup(name);
	return result;
}

/* Half-understood TLS or HTTP is refused even where a baseline would let the address through: it may hide a denied name. */
static gboolean is_suspicious(const Connection *connection)
{
	return connection->guard || (connection->first->len && connection->first->data[0] == 22);
}

static gboolean on_client(gint fd, GIOCondition condition, gpointer data)
{
	Connection *connection = data;
	guint8 bytes[8192];
	ssize_t size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return G_SOURCE_CONTINUE;
	connection->source = 0;
	if (size <= 0) {
		drop(connection);
		return G_SOURCE_REMOVE;
	}
	switch (sniff(connection, bytes, (gsize)size)) {
	case VIAL_SNIFF_MORE:
		connection->source = g_unix_fd_add(fd, G_IO_IN, on_client, connection);
		break;
	case VIAL_SNIFF_NAME:
	case VIAL_SNIFF_NO_NAME:
		decide(connection);
		break;
	case VIAL_SNIFF_OTHER:
		if (is_suspicious(connection))
			refuse(connection, (VialNetVerdict){ .by = VIAL_NET_BY_NAME,
			                                     .rule = "malformed",
			                                     .reason = "the TLS hello or HTTP request cannot be followed" });
		else
			decide(connection);
		break;
	}
	return G_SOURCE_REMOVE;
}

static gboolean on_silence(gpointer data)
{
	Connection *connection = data;

	connection->timer = 0;
	if (is_suspicious(connection))
		drop(connection);
	else
		decide(connection);
	return G_SOURCE_REMOVE;
}

static gboolean original_destination(int fd, const struct sockaddr *from, Connection *connection)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);
	VialAddress guest;

	vial_address_from_sockaddr(from, &guest, &connection->guest_port);
	/* The socket is dual-stack; which of the two tables knows the connection follows from the client's address. */
	if (guest.family == AF_INET ? getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &address, &size) < 0
	                            : getsockopt(fd, SOL_IPV6, IP6T_SO_ORIGINAL_DST, &address, &size) < 0)
		return FALSE;
	vial_address_from_sockaddr((struct sockaddr *)&address, &connection->address, &connection->port);
	return vial_net_port_is_inspected(connection->port);
}

static void accept_one(VialProxy *proxy, int fd, const struct sockaddr *from)
{
	Connection *connection = g_new0(Connection, 1);
	VialNetVerdict without_name;

	connection->proxy = proxy;
	connection->client_fd = fd;
	connection->server_fd = -1;
	connection->first = g_byte_array_new();
	if (g_hash_table_size(proxy->connections) >= MAX_CONNECTIONS || !original_destination(fd, from, connection)) {
		connection_free(connection);
		return;
	}
	tune(fd);
	g_hash_table_add(proxy->connections, connection);
	without_name = vial_slot_judge(proxy->slot, NULL, NULL, &connection->address, connection->port);
	connection->source = g_unix_fd_add(fd, G_IO_IN, on_client, connection);
	connection->timer = g_timeout_add(without_name.allowed ? SNIFF_BASELINE_MS : SNIFF_MS, on_silence, connection);
}

static gboolean on_accept(gint fd, GIOCondition condition, gpointer data)
{
	VialProxy *proxy = data;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage from;
		socklen_t size = sizeof(from);
		int accepted = accept4(fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (accepted < 0)
			break;
		accept_one(proxy, accepted, (struct sockaddr *)&from);
	}
	return G_SOURCE_CONTINUE;
}

/* ---- life ---- */

VialProxy *vial_proxy_new(VialNetSlot *slot, GError **error)
{
	VialProxy *proxy = g_new0(VialProxy, 1);

	proxy->slot = slot;
	proxy->connections = g_hash_table_new(NULL, NULL);
	proxy->fd = vial_gate_socket(slot->gate_fd, SOCK_STREAM, VIAL_PROXY_PORT, error);
	if (proxy->fd < 0) {
		vial_proxy_free(proxy);
		return NULL;
	}
	proxy->watch = vial_watch_add(G_PRIORITY_DEFAULT, proxy->fd, G_IO_IN, on_accept, proxy, NULL);
	return proxy;
}

static void cut(Connection *connection)
{
	if (connection->relay)
		vial_relay_cut(connection->relay);
	else
		drop(connection);
}

void vial_proxy_prune_connections(VialProxy *proxy)
{
	g_autoptr(GList) connections = g_hash_table_get_keys(proxy->connections);

	for (GList *at = connections; at; at = at->next) {
		Connection *connection = at->data;

		/* Those still sniffing are judged when they have spoken. */
		if (connection->event && !judge(connection).allowed)
			cut(connection);
	}
}

guint vial_proxy_count(const VialProxy *proxy)
{
	return g_hash_table_size(proxy->connections);
}

void vial_proxy_progress(VialProxy *proxy)
{
	GHashTableIter iter;
	gpointer key;

	g_hash_table_iter_init(&iter, proxy->connections);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		Connection *connection = key;
		guint64 bytes_in, bytes_out;

		if (!connection->relay)
			continue;
		vial_relay_progress(connection->relay, &bytes_in, &bytes_out);
		vial_events_update(proxy->slot->events, connection->event, bytes_in, bytes_out);
	}
}

void vial_proxy_free(VialProxy *proxy)
{
	g_autoptr(GList) connections = NULL;

	if (!proxy)
		return;
	g_clear_handle_id(&proxy->watch, vial_watch_remove);
	vial_fd_clear(&proxy->fd);
	connections = g_hash_table_get_keys(proxy->connections);
	for (GList *at = connections; at; at = at->next) {
		Connection *connection = at->data;

		connection->proxy = NULL;
		cut(connection);
	}
	g_hash_table_unref(proxy->connections);
	g_free(proxy);
}
