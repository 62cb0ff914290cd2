/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only resolver a sandbox has. It asks the host's resolvers for names that the policy allows and answers all others
 * itself, so that a name nobody allowed never leaves the machine. Private addresses are taken out of answers (rebinding).
 * Answers are given only after the kernel knows the addresses: the connection that follows is never too early.
 *
 * HTTPS and SVCB records are answered with nothing: they carry addresses and keys (ECH) that would lead around the proxy.
 * Main thread.
 */
#include <errno.h>
#include <glib-unix.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/change.h"
#include "net/internal.h"
#include "net/netns.h"
#include "net/rules.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"
#include "util/watch.h"

#define DNS_PORT 53
#define DATAGRAMS_PER_TURN 16
#define MAX_UNDER_WAY 256 /* questions of one sandbox */
#define MAX_TCP 8
#define TCP_TIMEOUT_MS 5000
/*
 * Under a wildcard or a baseline the part in front can carry data to whoever serves the domain. Ordinary names stay far
 * below this; a tunnel is left with a few bytes per second.
 */
#define MAX_FREE_BYTES 80
#define NEW_NAMES_PER_SECOND 5
#define NEW_NAMES_BURST 200
/* TTLs we hand out: short ones are stretched, since a pin must outlive the client's own cache for a while. */
#define TTL_MIN 5
#define TTL_MAX 600

/* RFC 8914 */
#define EDE_FILTERED 17
#define EDE_PROHIBITED 18

struct VialResolver {
	VialNetSlot *slot;
	int udp_fd, tcp_fd;
	guint udp_watch, tcp_watch;
	VialBucket questions;
	VialBucket new_names;
	GHashTable *under_way; /* Question */
	GHashTable *clients;   /* TcpClient */
};

typedef struct {
	VialResolver *resolver;
	int fd;
	guint source, timer;
	GByteArray *in;
	gboolean is_asking;
} TcpClient;

typedef struct {
	VialResolver *resolver;
	VialDnsQuery query;
	char *rule;
	VialUpstreamQuestion *upstream;
	VialNetChange *pin;  /* the answer waits for it */
	GByteArray *message; /* that answer */
	TcpClient *client;   /* NULL: UDP */
	struct sockaddr_storage from;
	socklen_t from_bytes;
} Question;

/* ---- TCP clients ---- */

static void client_free(gpointer data)
{
	TcpClient *client = data;

	g_clear_handle_id(&client->source, g_source_remove);
	g_clear_handle_id(&client->timer, g_source_remove);
	vial_fd_clear(&client->fd);
	g_byte_array_unref(client->in);
	g_free(client);
}

/* A client that leaves while its question is under way: the answer finds nobody. */
static void client_drop(TcpClient *client)
{
	VialResolver *resolver = client->resolver;
	GHashTableIter iter;
	gpointer key;

	g_hash_table_iter_init(&iter, resolver->under_way);
	while (g_hash_table_iter_next(&iter, &key, NULL))
		if (((Question *)key)->client == client)
			g_hash_table_iter_remove(&iter);
	g_hash_table_remove(resolver->clients, client);
}

/* ---- answering ---- */

static void question_free(gpointer data)
{
	Question *question = data;

	vial_upstream_cancel(question->upstream);
	vial_net_change_forget(question->pin);
	g_clear_pointer(&question->message, g_byte_array_unref);
	g_free(question->rule);
	g_free(question);
}

static GByteArray *write_answer(const Question *question, int rcode, const GPtrArray *records, int extended_error)
{
	GByteArray *message = g_byte_array_new();
	gsize max_bytes = question->client ? VIAL_DNS_MAX_MESSAGE : question->query.udp_bytes;

	vial_dns_write_answer(message, &question->query, rcode, records, TTL_MIN, TTL_MAX, max_bytes, extended_error);
	return message;
}

static void send_answer(Question *question, GByteArray *message)
{
	guint8 prefix[2] = { (guint8)(message->len >> 8), (guint8)message->len };

	if (!question->client) {
		/* A full socket buffer loses the answer, as UDP may; the client asks again. */
		(void)!sendto(question->resolver->udp_fd, message->data, message->len, MSG_DONTWAIT | MSG_NOSIGNAL,
		              (struct sockaddr *)&question->from, question->from_bytes);
		return;
	}
	/* One answer per connection, at most 64 KiB: it fits the socket's buffer. */
	g_byte_array_prepend(message, prefix, 2);
	(void)!send(question->client->fd, message->data, message->len, MSG_DONTWAIT | MSG_NOSIGNAL);
	question->client->is_asking = FALSE;
}

/* Sends and forgets. */
static void answer_with(Question *question, GByteArray *message)
{
	TcpClient *client = question->client;
	VialResolver *resolver = question->resolver;

	send_answer(question, message);
	g_byte_array_unref(message);
	if (!g_hash_table_remove(resolver->under_way, question))
		question_free(question);
	if (client)
		client_drop(client);
}

static void answer(Question *question, int rcode, const GPtrArray *records, int extended_error)
{
	answer_with(question, write_answer(question, rcode, records, extended_error));
}

static void note(VialResolver *resolver, const char *name, gboolean is_allowed, const char *rule, const char *reason)
{
	VialEventFacts facts = {
		.kind = VIAL_EVENT_DNS,
		.protocol = "dns",
		.name = name,
		.is_allowed = is_allowed,
		.rule = rule,
		.reason = reason,
	};

	if (is_allowed)
		resolver->slot->counters.dns_allowed++;
	else
		resolver->slot->counters.dns_denied++;
	vial_events_add(resolver->slot->events, &facts);
}

static void refuse(Question *question, const char *rule, const char *reason)
{
	note(question->resolver, question->query.name, FALSE, rule, reason);
	answer(question, VIAL_DNS_NXDOMAIN, NULL, EDE_FILTERED);
}

/* ---- an answer from the network ---- */

/* An alias must not lead to a name that the policy denies, unless the name asked for is itself allowed by name. */
static gboolean chain_is_allowed(const Question *question, const VialDnsAnswer *found)
{
	const VialNetPolicy *policy = question->resolver->slot->policy;
	VialNetVerdict verdict = vial_net_policy_check_name(policy, question->query.name);

	if (verdict.allowed && verdict.by == VIAL_NET_BY_NAME)
		return TRUE;
	for (guint i = 0; i < found->chain->len; i++)
		if (!vial_net_policy_check_name(policy, g_ptr_array_index(found->chain, i)).allowed)
			return FALSE;
	return TRUE;
}

/* Takes out what the guest may not have; the addresses that stay are in `addresses`. */
static GPtrArray *filter_addresses(const Question *question, const VialDnsAnswer *found, GArray *addresses, guint *out_ttl, const char **out_rule)
{
	GPtrArray *records = g_ptr_array_new();
	int family = question->query.type == VIAL_DNS_A ? AF_INET : AF_INET6;

	*out_ttl = TTL_MAX;
	for (guint i = 0; i < found->records->len; i++) {
		VialDnsRecord *record = g_ptr_array_index(found->records, i);
		VialAddress address;

		vial_address_from_bytes(family, g_bytes_get_data(record->data, NULL), &address);
		if (!vial_slot_may_answer(question->resolver->slot, &address, out_rule))
			continue;
		g_array_append_val(addresses, address);
		g_ptr_array_add(records, record);
		*out_ttl = MIN(*out_ttl, record->ttl);
	}
	return records;
}

/* The kernel knows the addresses, or will not: only now may the guest. */
static void on_pinned(const GError *error, gpointer data)
{
	Question *question = data;

	if (error) {
		vial_log_warning("net", "an address could not be opened", "sandbox_id", question->resolver->slot->label, "error", error->message);
		return answer(question, VIAL_DNS_SERVFAIL, NULL, -1);
	}
	note(question->resolver, question->query.name, TRUE, question->rule, NULL);
	answer_with(question, g_steal_pointer(&question->message));
}

static void answer_addresses(Question *question, const VialDnsAnswer *found)
{
	g_autoptr(GArray) addresses = g_array_new(FALSE, FALSE, sizeof(VialAddress));
	g_autoptr(GPtrArray) records = NULL;
	VialNetSlot *slot = question->resolver->slot;
	const char *rule = NULL;
	guint ttl;

	records = filter_addresses(question, found, addresses, &ttl, &rule);
	if (found->records->len && !records->len) {
		note(question->resolver, question->query.name, FALSE, rule, "the answer is an address that is not reachable");
		answer(question, VIAL_DNS_NOERROR, NULL, EDE_FILTERED);
		return;
	}
	question->message = write_answer(question, found->rcode, records, -1);
	if (records->len)
		vial_net_change_pin(slot, question->query.name, addresses, ttl, &question->pin, on_pinned, question);
	else
		on_pinned(NULL, question);
}

static void on_upstream(const VialDnsAnswer *found, gpointer data)
{
	Question *question = data;
	VialNetVerdict verdict;

	question->upstream = NULL;
	if (!found) {
		answer(question, VIAL_DNS_SERVFAIL, NULL, -1);
		return;
	}
	/* The policy may have changed meanwhile. */
	verdict = vial_net_policy_check_name(question->resolver->slot->policy, question->query.name);
	if (!verdict.allowed) {
		refuse(question, verdict.rule, verdict.reason);
	} else if (!chain_is_allowed(question, found)) {
		refuse(question, "alias", "the name is an alias of one that is not allowed");
	} else if (question->query.type == VIAL_DNS_A || question->query.type == VIAL_DNS_AAAA) {
		answer_addresses(question, found);
	} else {
		note(question->resolver, question->query.name, TRUE, question->rule, NULL);
		answer(question, found->rcode, found->records, -1);
	}
}

/* ---- a question from the guest ---- */

static gboolean is_supported(guint16 type)
{
	switch (type) {
	case VIAL_DNS_A:
	case VIAL_DNS_AAAA:
	case VIAL_DNS_CNAME:
	case VIAL_DNS_NS:
	case VIAL_DNS_SOA:
	case VIAL_DNS_PTR:
	case VIAL_DNS_MX:
	case VIAL_DNS_TXT:
	case VIAL_DNS_SRV:
	case VIAL_DNS_CAA:
		return TRUE;
	default:
		return FALSE;
	}
}

/* Names that mean something inside somebody's network only; a baseline does not cover them, a rule by name does. */
static gboolean is_inside_name(const char *name)
{
	static const char *const zones[] = { "local", "localhost", "internal", "home.arpa", "onion", "test", "invalid",
		                             "arpa",  "lan",       "intranet", "private",   "corp",  "home", NULL };

	if (!strchr(name, '.'))
		return TRUE;
	for (const char *const *zone = zones; *zone; zone++)
		if (vial_name_is_below(name, *zone))
			return TRUE;
	return FALSE;
}

/* How much of the name is the asker's own choice. */
static gsize free_bytes(const char *name, const VialNetVerdict *verdict)
{
	const char *suffix;

	if (verdict->by != VIAL_NET_BY_NAME)
		return strlen(name);
	if (!g_str_has_prefix(verdict->rule, "*."))
		return 0;
	suffix = strchr(verdict->rule, ':');

	gsize rule_bytes = suffix ? (gsize)(suffix - verdict->rule) : strlen(verdict->rule);

	return strlen(name) > rule_bytes ? strlen(name) - rule_bytes : 0;
}

static const char *check_tunnel(VialResolver *resolver, const char *name, const VialNetVerdict *verdict)
{
	gsize bytes = free_bytes(name, verdict);

	if (bytes == 0 || vial_answers_knows(resolver->slot->answers, name))
		return NULL;
	if (bytes > MAX_FREE_BYTES)
		return "limit:name-length";
	if (!vial_bucket_take(&resolver->new_names, NEW_NAMES_PER_SECOND, NEW_NAMES_BURST))
		return "limit:new-names";
	return NULL;
}

static void handle_name(Question *question)
{
	VialResolver *resolver = question->resolver;
	const char *name = question->query.name;
	VialNetVerdict verdict = vial_net_policy_check_name(resolver->slot->policy, name);
	const char *limit;

	if (!verdict.allowed) {
		refuse(question, verdict.rule, verdict.reason);
		return;
	}
	if (verdict.by != VIAL_NET_BY_NAME && is_inside_name(name)) {
		refuse(question, "closed:inside-names", "names of private networks need a rule of their own");
		return;
	}
	limit = check_tunnel(resolver, name, &verdict);
	if (limit) {
		refuse(question, limit, "too much data in names");
		return;
	}
	if (question->query.type == VIAL_DNS_HTTPS || question->query.type == VIAL_DNS_SVCB) {
		answer(question, VIAL_DNS_NOERROR, NULL, EDE_FILTERED);
		return;
	}
	if (!is_supported(question->query.type)) {
		answer(question, VIAL_DNS_NOTIMP, NULL, -1);
		return;
	}
	question->rule = g_strdup(verdict.rule);
	if (g_hash_table_size(resolver->under_way) < MAX_UNDER_WAY)
		question->upstream = vial_upstream_ask(resolver->slot->net->upstream, name, question->query.type, on_upstream, question);
	if (!question->upstream) {
		answer(question, VIAL_DNS_SERVFAIL, NULL, -1);
		return;
	}
	g_hash_table_add(resolver->under_way, question);
}

static void handle(VialResolver *resolver, const guint8 *bytes, gsize size, TcpClient *client, const struct sockaddr_storage *from,
                   socklen_t from_bytes)
{
	Question *question = g_new0(Question, 1);
	guint rate = resolver->slot->limits.dns_rate;
	int rcode;

	question->resolver = resolver;
	question->client = client;
	if (from) {
		question->from = *from;
		question->from_bytes = from_bytes;
	}
	if (!vial_dns_read_query(bytes, size, &question->query, &rcode)) {
		question_free(question);
		if (client)
			client_drop(client);
		return;
	}
	if (rcode != VIAL_DNS_NOERROR) {
		answer(question, rcode, NULL, -1);
	} else if (rate && !vial_bucket_take(&resolver->questions, rate, rate * 4.0)) {
		note(resolver, NULL, FALSE, "limit:dns-rate", "too many questions");
		answer(question, VIAL_DNS_REFUSED, NULL, EDE_PROHIBITED);
	} else {
		handle_name(question);
	}
}

static gboolean on_datagram(gint fd, GIOCondition condition, gpointer data)
{
	VialResolver *resolver = data;

	for (int i = 0; i < DATAGRAMS_PER_TURN; i++) {
		guint8 bytes[VIAL_DNS_PLAIN_BYTES * 2];
		struct sockaddr_storage from;
		socklen_t from_bytes = sizeof(from);
		ssize_t size = recvfrom(fd, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)&from, &from_bytes);

		if (size < 0)
			break;
		handle(resolver, bytes, (gsize)size, NULL, &from, from_bytes);
	}
	return G_SOURCE_CONTINUE;
}

/* ---- TCP ---- */

static gboolean on_client_timeout(gpointer data)
{
	TcpClient *client = data;

	client->timer = 0;
	client_drop(client);
	return G_SOURCE_REMOVE;
}

static gboolean on_client(gint fd, GIOCondition condition, gpointer data)
{
	TcpClient *client = data;
	guint8 bytes[1024];
	ssize_t size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	guint want;

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return G_SOURCE_CONTINUE;
	if (size <= 0 || client->is_asking) { /* gone, or talking while its question is under way */
		client->source = 0;
		client_drop(client);
		return G_SOURCE_REMOVE;
	}
	g_byte_array_append(client->in, bytes, (guint)size);
	if (client->in->len < 2)
		return G_SOURCE_CONTINUE;
	want = 2u + (guint)(client->in->data[0] << 8 | client->in->data[1]);
	if (client->in->len < want && want <= 1024)
		return G_SOURCE_CONTINUE;
	/* The question is taken; from here on the source only watches for the client leaving. */
	client->is_asking = TRUE;
	if (want > 1024) {
		client->source = 0;
		client_drop(client);
		return G_SOURCE_REMOVE;
	}

	VialResolver *resolver = client->resolver;

	handle(resolver, client->in->data + 2, want - 2, client, NULL, 0);
	/* The answer may have come at once and taken the client, and with it this source, away. */
	return g_hash_table_contains(resolver->clients, client) ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

static gboolean on_accept(gint fd, GIOCondition condition, gpointer data)
{
	VialResolver *resolver = data;
	int accepted = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	TcpClient *client;

	if (accepted < 0)
		return G_SOURCE_CONTINUE;
	if (g_hash_table_size(resolver->clients) >= MAX_TCP) {
		close(accepted);
		return G_SOURCE_CONTINUE;
	}
	client = g_new0(TcpClient, 1);
	client->resolver = resolver;
	client->fd = accepted;
	client->in = g_byte_array_new();
	client->source = g_unix_fd_add(accepted, G_IO_IN | G_IO_HUP, on_client, client);
	client->timer = g_timeout_add(TCP_TIMEOUT_MS, on_client_timeout, client);
	g_hash_table_add(resolver->clients, client);
	return G_SOURCE_CONTINUE;
}

/* ---- life ---- */

VialResolver *vial_resolver_new(VialNetSlot *slot, GError **error)
{
	VialResolver *resolver = g_new0(VialResolver, 1);

	resolver->slot = slot;
	resolver->tcp_fd = -1;
	resolver->under_way = g_hash_table_new_full(NULL, NULL, question_free, NULL);
	resolver->clients = g_hash_table_new_full(NULL, NULL, client_free, NULL);
	resolver->udp_fd = vial_gate_socket(slot->gate_fd, SOCK_DGRAM, DNS_PORT, error);
	if (resolver->udp_fd >= 0)
		resolver->tcp_fd = vial_gate_socket(slot->gate_fd, SOCK_STREAM, DNS_PORT, error);
	if (resolver->tcp_fd < 0) {
		vial_resolver_free(resolver);
		return NULL;
	}
	resolver->udp_watch = vial_watch_add(G_PRIORITY_DEFAULT, resolver->udp_fd, G_IO_IN, on_datagram, resolver, NULL);
	resolver->tcp_watch = vial_watch_add(G_PRIORITY_DEFAULT, resolver->tcp_fd, G_IO_IN, on_accept, resolver, NULL);
	return resolver;
}

void vial_resolver_free(VialResolver *resolver)
{
	if (!resolver)
		return;
	g_clear_handle_id(&resolver->udp_watch, vial_watch_remove);
	g_clear_handle_id(&resolver->tcp_watch, vial_watch_remove);
	g_hash_table_unref(resolver->under_way);
	g_hash_table_unref(resolver->clients);
	vial_fd_clear(&resolver->udp_fd);
	vial_fd_clear(&resolver->tcp_fd);
	g_free(resolver);
}
