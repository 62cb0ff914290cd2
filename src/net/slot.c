/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slot from the inside: verdicts that need more than the policy, pins, events from the kernel, and a policy's way into
 * the kernel. net.c makes and removes slots. Main thread.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/conntrack.h"
#include "net/internal.h"
#include "net/caps.h"
#include "net/name.h"
#include "net/netns.h"
#include "net/nflog.h"
#include "net/rules.h"
#include "net/slot.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/watch.h"

/* Part of the policy's hash: raise it when rules.c changes, and adopted slots get the new rules. */
#define RULES_VERSION "2"
#define HOST_ADDRESSES_MS 10000
#define LISTEN_BACKLOG 256

gboolean vial_bucket_take(VialBucket *bucket, double rate, double burst)
{
	gint64 now_ms = vial_time_monotonic_ms();

	if (!bucket->filled_ms)
		bucket->tokens = burst;
	else
		bucket->tokens = MIN(burst, bucket->tokens + rate * (double)(now_ms - bucket->filled_ms) / 1000.0);
	bucket->filled_ms = now_ms;
	if (bucket->tokens < 1)
		return FALSE;
	bucket->tokens -= 1;
	return TRUE;
}

int vial_gate_socket(int gate_fd, int type, guint16 port, GError **error)
{
	vial_autofd int fd = vial_netns_socket(gate_fd, AF_INET6, type, 0, error);
	struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT };
	int off = 0;
	int on = 1;

	if (fd < 0)
		return -1;
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, VIAL_GATE_INTERFACE, sizeof(VIAL_GATE_INTERFACE)) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || (type == SOCK_STREAM && listen(fd, LISTEN_BACKLOG) < 0)) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot listen in the sandbox's gate: %s", g_strerror(errno));
		return -1;
	}
	return vial_fd_steal(&fd);
}

/* ---- verdicts ---- */

static gboolean is_host_address(const VialNetSlot *slot, const VialAddress *address)
{
	const GArray *addresses = slot->net->host.addresses;

	for (guint i = 0; i < addresses->len; i++)
		if (vial_address_equal(&g_array_index(addresses, VialAddress, i), address))
			return TRUE;
	return FALSE;
}

VialNetVerdict vial_slot_judge(VialNetSlot *slot, const char *name, const char *claimed_name, const VialAddress *address, guint16 port)
{
	if (slot->policy->mode != VIAL_NET_DISABLED && is_host_address(slot, address) && !vial_net_policy_names_address(slot->policy, address, port))
		return (VialNetVerdict){ .by = VIAL_NET_BY_SCOPE,
			                 .rule = "host",
			                 .reason = "the host's own addresses are closed unless allow_out names exactly this one" };
	return vial_net_policy_check_connection(slot->policy, name, claimed_name, address, port);
}

gboolean vial_slot_may_answer(VialNetSlot *slot, const VialAddress *address, const char **out_rule)
{
	VialScope scope = vial_address_scope(address, out_rule);
	gboolean is_host = is_host_address(slot, address);

	if (scope == VIAL_SCOPE_PUBLIC && !is_host)
		return TRUE;
	if (is_host)
		*out_rule = "host";
	for (guint i = 0; scope != VIAL_SCOPE_SEALED && i < slot->policy->allow->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(slot->policy->allow, i);

		if (entry->kind != VIAL_NET_ENTRY_RANGE || !vial_range_contains(&entry->range, address))
			continue;
		if (is_host ? entry->range.prefix == (address->family == AF_INET ? 32 : 128)
		            : vial_range_scope(&entry->range, NULL) == VIAL_SCOPE_CLOSED)
			return TRUE;
	}
	return FALSE;
}

/* ---- pins ---- */

typedef struct {
	const VialNetPolicy *policy;
	GString *commands;
	gint64 now_ms;
} Repin;

static gboolean repin(const char *name, const VialAddress *address, gint64 until_ms, gpointer data)
{
	Repin *again = data;

	vial_rules_pin(again->commands, again->policy, name, address, (guint)((until_ms - again->now_ms) / 1000 + 1));
	return FALSE;
}

/* ---- what the kernel reports ---- */

static const char *protocol_name(guint8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return "icmp";
	default:
		return "other";
	}
}

typedef struct {
	VialNetSlot *slot;
	const VialAddress *address;
	guint16 port;
	const char *name;
	VialNetVerdict verdict;
} NameSearch;

static gboolean is_admitting_name(const char *name, const VialAddress *address, gint64 until_ms, gpointer data)
{
	NameSearch *search = data;
	VialNetVerdict verdict = vial_slot_judge(search->slot, name, NULL, address, search->port);

	search->name = name;
	if (!verdict.allowed)
		return FALSE;
	search->verdict = verdict;
	return TRUE;
}

/* The verdict on a connection that the kernel decided by its address: by an address rule, else by a pinned name. */
static VialNetVerdict judge_direct(VialNetSlot *slot, const VialAddress *address, guint16 port, const char **out_name)
{
	VialNetVerdict verdict = vial_slot_judge(slot, NULL, NULL, address, port);
	NameSearch search = { .slot = slot, .address = address, .port = port };

	if (vial_answers_each(slot->answers, address, vial_time_monotonic_ms(), is_admitting_name, &search) && !verdict.allowed)
		verdict = search.verdict;
	*out_name = search.name;
	return verdict;
}

static void on_logged(const VialLogPacket *packet, gpointer data)
{
	VialNetSlot *slot = data;
	const char *name = NULL;
	gboolean is_allowed = strcmp(packet->prefix, "allow") == 0;
	VialNetVerdict verdict = judge_direct(slot, &packet->address, packet->port, &name);
	VialEventFacts facts = {
		.kind = is_allowed ? VIAL_EVENT_CONNECTION : VIAL_EVENT_REFUSED,
		.protocol = protocol_name(packet->protocol),
		.name = name,
		.address = packet->address,
		.port = packet->port,
		.guest_port = packet->guest_port,
		.is_allowed = is_allowed,
		.rule = verdict.rule,
		.reason = is_allowed ? NULL : verdict.reason,
	};

	/* The kernel's word is the verdict; the policy only explains it. */
	if (strcmp(packet->prefix, "limit") == 0) {
		facts.rule = "limit:connections";
		facts.reason = "too many connections";
	} else if (is_allowed && !verdict.allowed) {
		facts.rule = "replaced"; /* told late: the policy that let it out is gone */
	} else if (!is_allowed && verdict.allowed) {
		facts.rule = "unverifiable";
		facts.reason = packet->protocol == IPPROTO_UDP ? "QUIC hides the name that the rules go by"
		                                               : "the protocol cannot be checked against the rules";
	}
	if (is_allowed)
		slot->counters.connections_allowed++;
	else
		slot->counters.connections_denied++;
	vial_events_add(slot->events, &facts);
}

static void on_ended(const VialConnection *connection, gpointer data)
{
	VialNetSlot *slot = data;
	VialEventFacts facts = {
		.protocol = protocol_name(connection->protocol),
		.address = connection->address,
		.port = connection->port,
		.guest_port = connection->guest_port,
	};

	if (connection->mark == VIAL_MARK_DIRECT)
		vial_events_end(slot->events, &facts, connection->bytes_in, connection->bytes_out);
}

/* ---- services ---- */

gboolean vial_slot_open(VialNetSlot *slot, GError **error)
{
	slot->resolver = vial_resolver_new(slot, error);
	if (!slot->resolver)
		return FALSE;
	slot->proxy = vial_proxy_new(slot, error);
	if (!slot->proxy)
		return FALSE;
	slot->log_watch = vial_nflog_watch(slot->gate_fd, VIAL_LOG_GROUP, on_logged, slot, error);
	if (!slot->log_watch)
		return FALSE;
	slot->conntrack_watch = vial_conntrack_watch(slot->gate_fd, on_ended, slot, error);
	return slot->conntrack_watch != 0;
}

void vial_slot_close(VialNetSlot *slot)
{
	g_clear_handle_id(&slot->log_watch, vial_watch_remove);
	g_clear_handle_id(&slot->conntrack_watch, vial_watch_remove);
	g_clear_pointer(&slot->resolver, vial_resolver_free);
	g_clear_pointer(&slot->proxy, vial_proxy_free);
}

/* ---- the policy in force ---- */

void vial_slot_policy_hash(const VialNetLimits *limits, const VialNetPolicy *policy, char out[17])
{
	g_autoptr(json_t) json = vial_net_policy_to_json(policy);
	g_autofree char *dump = vial_json_dump(json);
	g_autofree char *text = g_strdup_printf("%s%s%u %u %u %u", RULES_VERSION, dump, limits->rate_mbit, limits->max_connections,
	                                        limits->connection_rate, limits->packet_rate);
	guint8 digest[VIAL_SHA256_BYTES];
	g_autofree char *hex = NULL;

	vial_sha256(text, strlen(text), digest);
	hex = vial_hex_encode(digest, 8);
	g_strlcpy(out, hex, 17);
}

/*
 * A connection that the kernel admitted by its address. Web ports that names decide now cannot be checked any more once
 * they are under way, so they end.
 */
static gboolean keeps(const VialConnection *connection, gpointer data)
{
	VialNetSlot *slot = data;
	gboolean is_web =
		vial_net_port_is_inspected(connection->port) && (connection->protocol == IPPROTO_TCP || connection->protocol == IPPROTO_UDP);
	const char *name;
	VialNetVerdict verdict;

	if (connection->mark == VIAL_MARK_RESOLVER)
		return slot->policy->mode != VIAL_NET_DISABLED;
	if (connection->mark != VIAL_MARK_DIRECT)
		return TRUE;
	if (!is_web || !vial_net_policy_has_names(slot->policy))
		return judge_direct(slot, &connection->address, connection->port, &name).allowed;
	verdict = vial_slot_judge(slot, NULL, NULL, &connection->address, connection->port);
	return verdict.allowed && verdict.by == VIAL_NET_BY_RANGE;
}

/* The host's addresses and its ways out come and go while we run. */
static void refresh_host(VialNet *net)
{
	gint64 now_ms = vial_time_monotonic_ms();
	g_autoptr(GError) error = NULL;

	if (net->host_addresses_ms && now_ms - net->host_addresses_ms < HOST_ADDRESSES_MS)
		return;
	net->host_addresses_ms = now_ms;
	if (!vial_host_refresh(&net->host, &error))
		vial_log_warning("net", "the host's network could not be read", "error", error->message);
}

/* The host's wall opens for host addresses that the policy names; the gate's rules see to the ports. */
GArray *vial_slot_wanted_host(VialNetSlot *slot, const VialNetPolicy *policy)
{
	GArray *wanted = g_array_new(FALSE, FALSE, sizeof(VialAddress));

	for (guint i = 0; i < policy->allow->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->allow, i);

		if (entry->kind == VIAL_NET_ENTRY_RANGE && is_host_address(slot, &entry->range.address) &&
		    vial_net_policy_names_address(policy, &entry->range.address, entry->port_from))
			g_array_append_val(wanted, entry->range.address);
	}
	return wanted;
}

char *vial_slot_host_rules(VialNetSlot *slot, const GArray *closing, const GArray *opening)
{
	g_autoptr(GString) commands = g_string_new(NULL);

	for (guint i = 0; closing && i < closing->len; i++) {
		/* Added first so that a removal never meets an absent element. */
		vial_rules_host_open(commands, slot->host_index, &g_array_index(closing, VialAddress, i), TRUE);
		vial_rules_host_open(commands, slot->host_index, &g_array_index(closing, VialAddress, i), FALSE);
	}
	for (guint i = 0; opening && i < opening->len; i++)
		vial_rules_host_open(commands, slot->host_index, &g_array_index(opening, VialAddress, i), TRUE);
	return commands->len ? g_strdup(commands->str) : NULL;
}

char *vial_slot_policy_rules(VialNetSlot *slot, const VialNetPolicy *policy, const char *hash, const char *old_hash)
{
	GString *commands = g_string_new(NULL);
	Repin again = { .policy = policy, .commands = commands, .now_ms = vial_time_monotonic_ms() };

	refresh_host(slot->net);
	vial_rules_policy(commands, policy, slot->net->host.addresses, hash, old_hash);
	vial_answers_each(slot->answers, NULL, again.now_ms, repin, &again);
	return g_string_free(commands, FALSE);
}

/* At once, for a slot that nobody uses yet; change.c does it for the others. `prefix` are commands to run in the same transaction before the
 * policy's. */
gboolean vial_slot_apply(VialNetSlot *slot, const VialNetPolicy *policy, const char *prefix, GError **error)
{
	g_autoptr(VialNetPolicy) keep = vial_net_policy_ref(policy);
	g_autofree char *rules = NULL, *commands = NULL, *host = NULL;
	GArray *host_open;
	char hash[17];

	vial_slot_policy_hash(&slot->limits, policy, hash);
	rules = vial_slot_policy_rules(slot, policy, hash, slot->policy_hash[0] && !prefix ? slot->policy_hash : NULL);
	commands = g_strconcat(prefix ? prefix : "", rules, NULL);
	host_open = vial_slot_wanted_host(slot, policy);
	host = vial_slot_host_rules(slot, slot->host_open, host_open);
	if ((host && !vial_nft_run(slot->net->host_nft, host, error)) || !vial_nft_run(slot->nft, commands, error)) {
		g_array_unref(host_open);
		return FALSE;
	}
	g_strlcpy(slot->policy_hash, hash, sizeof(slot->policy_hash));
	vial_net_policy_unref(slot->policy);
	slot->policy = g_steal_pointer(&keep);
	g_clear_pointer(&slot->host_open, g_array_unref);
	slot->host_open = host_open;
	return TRUE;
}

void vial_slot_select_cut(VialNetSlot *slot, GPtrArray *tracked)
{
	vial_proxy_prune_connections(slot->proxy);
	for (guint i = tracked->len; i > 0; i--)
		if (keeps(&((VialTracked *)tracked->pdata[i - 1])->connection, slot))
			g_ptr_array_remove_index_fast(tracked, i - 1);
}

gboolean vial_slot_prune_connections(VialNetSlot *slot, GError **error)
{
	g_autoptr(GPtrArray) tracked = vial_conntrack_list(slot->gate_fd, error);

	if (!tracked)
		return FALSE;
	vial_slot_select_cut(slot, tracked);
	return vial_conntrack_delete(slot->gate_fd, tracked, error);
}

gboolean vial_net_slot_has_policy(const VialNetSlot *slot, const VialNetPolicy *policy)
{
	VialNetLimits limits = vial_caps_narrow(&policy->limits, &slot->base_limits);
	char hash[17];

	if (slot->changes.length > 0)
		return FALSE;
	if (policy->mode == VIAL_NET_DISABLED && slot->policy->mode == VIAL_NET_DISABLED)
		return TRUE;
	vial_slot_policy_hash(&limits, policy, hash);
	return strcmp(hash, slot->policy_hash) == 0;
}

const VialNetPolicy *vial_net_slot_policy(const VialNetSlot *slot)
{
	return slot->policy;
}

json_t *vial_net_slot_check(VialNetSlot *slot, const char *host, guint16 port, GError **error)
{
	VialNetVerdict verdict;
	VialAddress address;
	json_t *json;

	if (vial_address_parse(host, &address)) {
		verdict = vial_slot_judge(slot, NULL, NULL, &address, port);
	} else {
		g_autofree char *name = vial_name_normalize(host);

		if (!name) {
			vial_fail(error, VIAL_ERROR_INVALID, "host: \"%s\" is neither an address nor a name", host);
			return NULL;
		}
		verdict = vial_net_policy_check_name_port(slot->policy, name, port);
	}
	json = json_object();
	json_object_set_new(json, "verdict", json_string(verdict.allowed ? "allow" : "deny"));
	json_object_set_new(json, "rule", json_string(verdict.rule));
	json_object_set_new(json, "reason", json_string(verdict.reason));
	return json;
}

json_t *vial_net_slot_events(VialNetSlot *slot, guint64 after, guint limit)
{
	vial_proxy_progress(slot->proxy);
	return vial_events_to_json(slot->events, after, limit);
}

void vial_net_slot_mark(const VialNetSlot *slot, VialNetMark *out)
{
	out->refused = slot->counters.connections_denied + slot->counters.dns_denied;
	out->last_event = vial_events_last(slot->events);
}

void vial_net_slot_untold(const VialNetSlot *slot, VialNetMark *out)
{
	*out = slot->told;
}

void vial_net_slot_told(VialNetSlot *slot, const VialNetMark *mark)
{
	if (mark->refused > slot->told.refused)
		slot->told = *mark;
}

void vial_net_slot_counters(VialNetSlot *slot, VialNetCounters *out)
{
	guint64 from_guest, to_guest;

	if (vial_wiring_traffic(slot->gate_fd, &from_guest, &to_guest)) {
		slot->counters.bytes_out = from_guest;
		slot->counters.bytes_in = to_guest;
	}
	slot->counters.proxied = vial_proxy_count(slot->proxy);
	*out = slot->counters;
}
