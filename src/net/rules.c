/* SPDX-License-Identifier: Apache-2.0 */
#include "net/rules.h"

#include <string.h>

#include "net/net.h"

#define GATE "inet vial"

/* ---- the gate's skeleton ---- */

/*
 * Below IP: only the guest's own hardware address, no VLANs, no other protocols, and a limit on packets before anything
 * costly looks at them.
 */
static void put_link_layer(GString *out, const VialRuleCaps *caps)
{
	g_string_append(out, "table netdev vial\n"
	                     "delete table netdev vial\n"
	                     "table netdev vial {\n"
	                     " chain arrive {\n"
	                     "  type filter hook ingress device \"" VIAL_GATE_INTERFACE "\" priority 0; policy drop;\n"
	                     "  ether saddr != " VIAL_NET_GUEST_MAC " drop\n");
	if (caps->packet_rate)
		g_string_append_printf(out, "  limit rate over %u/second burst %u packets drop\n", caps->packet_rate, MAX(caps->packet_rate / 4, 16));
	g_string_append(out, "  ether type { ip, ip6, arp } accept\n"
	                     " }\n"
	                     "}\n");
}

static void put_caps(GString *out, const VialRuleCaps *caps)
{
	if (caps->max_connections)
		g_string_append_printf(out, "add rule " GATE " caps ct count over %u goto over_limit\n", caps->max_connections);
	if (caps->connection_rate)
		g_string_append_printf(out, "add rule " GATE " caps limit rate over %u/second burst %u packets goto over_limit\n",
		                       caps->connection_rate, MAX(caps->connection_rate * 2, 16));
}

/*
 * The verdict on a new connection falls in prerouting, after connection tracking and before address translation, so that
 * one chain decides for what is forwarded, what is diverted to the proxy and what asks the resolver. Later hooks only look
 * at the connection's mark. Defragmentation comes first (connection tracking asks for it): no rule ever sees a fragment.
 *
 * A refused TCP connection gets "network unreachable", as if there were no route: gVisor and Linux pass that on at once.
 * UDP gets "port unreachable", the only ICMP error that an ordinary UDP socket reports.
 */
static const char gate_chains[] = " chain source {\n"
				  "  type filter hook prerouting priority raw; policy accept;\n"
				  "  iifname != \"" VIAL_GATE_INTERFACE "\" return\n"
				  "  ip saddr " VIAL_NET_GUEST_V4 " return\n"
				  "  meta l4proto icmpv6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } return\n"
				  "  ip6 saddr != " VIAL_NET_GUEST_V6 " drop\n"
				  "  exthdr rt exists drop\n"
				  "  meta nfproto ipv6 return\n"
				  "  drop\n"
				  " }\n"
				  " chain judge {\n"
				  "  type filter hook prerouting priority mangle; policy accept;\n"
				  "  iifname \"" VIAL_GATE_INTERFACE "\" jump from_guest\n"
				  " }\n"
				  " chain from_guest {\n"
				  "  ct state established,related accept\n"
				  "  meta l4proto icmpv6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept\n"
				  "  ct state != new goto unknown\n"
				  "  meta l4proto tcp tcp flags & (fin|syn|rst|ack) != syn goto unknown\n"
				  "  jump caps\n"
				  "  jump known_protocols\n"
				  "  jump rules\n"
				  "  goto deny\n"
				  " }\n"
				  " chain known_protocols {\n"
				  "  meta l4proto { tcp, udp } return\n"
				  "  meta l4proto icmp icmp type echo-request return\n"
				  "  meta l4proto icmpv6 icmpv6 type echo-request return\n"
				  "  goto deny\n"
				  " }\n"
				  " chain deny {\n"
				  "  limit rate 50/second burst 200 packets log prefix \"deny\" group 7 snaplen 96\n"
				  "  goto refuse\n"
				  " }\n"
				  " chain caps {\n"
				  " }\n"
				  " chain rules {\n"
				  " }\n"
				  " chain admit {\n"
				  "  ct mark set 1 log prefix \"allow\" group 7 snaplen 96 accept\n"
				  " }\n"
				  " chain ask {\n"
				  "  meta l4proto { tcp, udp } th dport 53 ct mark set 3 accept\n"
				  " }\n"
				  " chain inspect {\n"
				  "  ct mark set 2 accept\n"
				  " }\n"
				  " chain refuse {\n"
				  "  meta l4proto tcp reject with icmpx no-route\n"
				  "  reject with icmpx port-unreachable\n"
				  " }\n"
				  " chain over_limit {\n"
				  "  limit rate 10/second burst 20 packets log prefix \"limit\" group 7 snaplen 96\n"
				  "  goto refuse\n"
				  " }\n"
				  /* A connection that this slot never saw begin: cut by a policy, or inherited through a snapshot. */
				  " chain unknown {\n"
				  "  meta l4proto tcp reject with tcp reset\n"
				  "  drop\n"
				  " }\n"
				  " chain divert {\n"
				  "  type nat hook prerouting priority dstnat; policy accept;\n"
				  "  ct mark 2 meta l4proto tcp redirect to :" G_STRINGIFY(
					  VIAL_PROXY_PORT) "\n"
							   " }\n"
							   " chain local {\n"
							   "  type filter hook input priority filter; policy drop;\n"
							   "  ct state established,related accept\n"
							   "  iifname \"" VIAL_GATE_INTERFACE "\" ct mark { 2, 3 } accept\n"
							   "  meta l4proto icmpv6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept\n"
							   " }\n"
							   " chain through {\n"
							   "  type filter hook forward priority filter; policy drop;\n"
							   "  tcp flags syn tcp option maxseg size set rt mtu\n"
							   "  ct state established,related accept\n"
							   "  iifname \"" VIAL_GATE_INTERFACE "\" oifname \"" VIAL_GATE_UPLINK "\" ct mark 1 accept\n"
							   " }\n"
							   " chain own {\n"
							   "  type filter hook output priority filter; policy drop;\n"
							   "  ct state established,related accept\n"
							   "  oifname \"" VIAL_GATE_UPLINK "\" meta mark 1 accept\n"
							   "  oifname \"" VIAL_GATE_INTERFACE "\" meta l4proto { icmp, icmpv6 } accept\n"
							   "  oifname \"" VIAL_GATE_INTERFACE "\" meta l4proto tcp tcp flags & rst == rst accept\n"
							   "  meta l4proto icmpv6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept\n"
							   " }\n"
							   " chain leave {\n"
							   "  type nat hook postrouting priority srcnat; policy accept;\n"
							   "  oifname \"" VIAL_GATE_UPLINK "\" masquerade\n"
							   " }\n";

/* Named sets, made once: a policy only refers to them, which halves the time it takes to put it in force. */
static void put_scope_set(GString *out, VialScope scope, int family)
{
	const char *separator = "";

	g_string_append_printf(out, " set %s%d {\n  type ipv%d_addr; flags interval; auto-merge;\n  elements = {",
	                       scope == VIAL_SCOPE_SEALED ? "sealed" : "closed", family == AF_INET ? 4 : 6, family == AF_INET ? 4 : 6);
	for (const VialScopeRange *range = vial_scope_ranges(); range->text; range++) {
		if (range->scope != scope || (strchr(range->text, ':') ? AF_INET6 : AF_INET) != family)
			continue;
		g_string_append_printf(out, "%s %s", separator, range->text);
		separator = ",";
	}
	g_string_append(out, " }\n }\n");
}

void vial_rules_gate(GString *out, const VialRuleCaps *caps)
{
	put_link_layer(out, caps);
	g_string_append(out, "table " GATE "\ndelete table " GATE "\ntable " GATE " {\n");
	put_scope_set(out, VIAL_SCOPE_SEALED, AF_INET);
	put_scope_set(out, VIAL_SCOPE_SEALED, AF_INET6);
	put_scope_set(out, VIAL_SCOPE_CLOSED, AF_INET);
	put_scope_set(out, VIAL_SCOPE_CLOSED, AF_INET6);
	g_string_append(out, gate_chains);
	g_string_append(out, "}\n");
	put_caps(out, caps);
}

void vial_rules_caps(GString *out, const VialRuleCaps *caps)
{
	put_link_layer(out, caps);
	g_string_append(out, "flush chain " GATE " caps\n");
	put_caps(out, caps);
}

/* ---- a policy ---- */

#define RULE "add rule " GATE " rules "

static const char *family_word(int family)
{
	return family == AF_INET ? "ip" : "ip6";
}

static void put_range(GString *out, const VialRange *range)
{
	char text[VIAL_ADDRESS_TEXT_SIZE];

	vial_address_format(&range->address, text);
	g_string_append_printf(out, "%s/%u", text, range->prefix);
}

/* The match on ports; nothing for "all", so that ICMP is included. */
static void put_ports(GString *out, guint16 from, guint16 to)
{
	if (from == 0 && to == G_MAXUINT16)
		return;
	g_string_append_printf(out, " meta l4proto { tcp, udp } th dport %u-%u", from, to);
}

static gboolean is_of_scope(const VialNetEntry *entry, VialScope scope, int family)
{
	return entry->kind == VIAL_NET_ENTRY_RANGE && entry->range.address.family == family &&
	       (scope == VIAL_SCOPE_SEALED || vial_range_scope(&entry->range, NULL) == scope);
}

/*
 * One rule with an anonymous set per different port range. Anonymous sets merge overlapping ranges (10.0.0.0/8
 * and 10.1.0.0/16) by themselves. `scope` SEALED stands for "any".
 */
static void put_ranges(GString *out, const GPtrArray *list, VialScope scope, int family, const char *verdict)
{
	g_autofree guint8 *is_done = g_new0(guint8, list->len + 1);

	for (guint i = 0; i < list->len; i++) {
		const VialNetEntry *first = g_ptr_array_index(list, i);
		gboolean is_first = TRUE;

		if (is_done[i] || !is_of_scope(first, scope, family))
			continue;
		g_string_append_printf(out, RULE "%s daddr {", family_word(family));
		for (guint j = i; j < list->len; j++) {
			const VialNetEntry *entry = g_ptr_array_index(list, j);

			if (!is_of_scope(entry, scope, family) || entry->port_from != first->port_from || entry->port_to != first->port_to)
				continue;
			g_string_append(out, is_first ? " " : ", ");
			put_range(out, &entry->range);
			is_first = FALSE;
			is_done[j] = 1;
		}
		g_string_append(out, " }");
		put_ports(out, first->port_from, first->port_to);
		g_string_append_printf(out, " %s\n", verdict);
	}
}

/* The host's own addresses: shut, but for those that allow_out names one by one. */
static void put_host(GString *out, const VialNetPolicy *policy, const GArray *addresses)
{
	for (guint i = 0; i < addresses->len; i++) {
		const VialAddress *address = &g_array_index(addresses, VialAddress, i);
		guint8 full = address->family == AF_INET ? 32 : 128;
		char text[VIAL_ADDRESS_TEXT_SIZE];

		if (vial_address_scope(address, NULL) == VIAL_SCOPE_SEALED)
			continue;
		vial_address_format(address, text);
		for (guint j = 0; j < policy->allow->len; j++) {
			const VialNetEntry *entry = g_ptr_array_index(policy->allow, j);

			if (entry->kind != VIAL_NET_ENTRY_RANGE || entry->range.prefix != full || !vial_address_equal(&entry->range.address, address))
				continue;
			g_string_append_printf(out, RULE "%s daddr %s", family_word(address->family), text);
			put_ports(out, entry->port_from, entry->port_to);
			g_string_append(out, " goto admit\n");
		}
		g_string_append_printf(out, RULE "%s daddr %s return\n", family_word(address->family), text);
	}
}

static void pin_set(char out[16], int family, guint group)
{
	g_snprintf(out, 16, "pin%d_%u", family == AF_INET ? 4 : 6, group);
}

/* Name rules: web ports go to the proxy; QUIC cannot be checked and stays shut; the rest needs only the pinned address. */
static void put_pinned(GString *out, int family, guint group, VialNetPorts ports)
{
	const char *word = family_word(family);
	char set[16];

	pin_set(set, family, group);
	for (guint i = 0; i < 2; i++) {
		guint16 port = i ? 443 : 80;

		if (ports.from <= port && port <= ports.to)
			g_string_append_printf(out, RULE "%s daddr @%s tcp dport %u goto inspect\n", word, set, port);
	}
	g_string_append_printf(out, RULE "%s daddr @%s meta l4proto { tcp, udp } th dport %u-%u th dport != { 80, 443 } goto admit\n", word, set,
	                       ports.from, ports.to);
	if (ports.from == 0 && ports.to == G_MAXUINT16)
		g_string_append_printf(out, RULE "%s daddr @%s meta l4proto { icmp, icmpv6 } goto admit\n", word, set);
}

static gboolean denies_names(const VialNetPolicy *policy)
{
	for (guint i = 0; i < policy->deny->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->deny, i);

		if (entry->kind == VIAL_NET_ENTRY_NAME || entry->kind == VIAL_NET_ENTRY_WILDCARD)
			return TRUE;
	}
	return FALSE;
}

static void put_baseline_ports(GString *out, const VialNetPolicy *policy, guint16 from, guint16 to)
{
	if (vial_net_policy_has_names(policy))
		for (guint i = 0; i < 2; i++) {
			guint16 port = i ? 443 : 80;

			if (from <= port && port <= to)
				g_string_append_printf(out, RULE "tcp dport %u goto inspect\n", port);
		}
	/* QUIC hides the name that a deny rule wants to see. */
	if (denies_names(policy))
		g_string_append(out, RULE "udp dport { 80, 443 } return\n");
	g_string_append(out, "add rule " GATE " rules");
	put_ports(out, from, to);
	g_string_append(out, " goto admit\n");
}

static void put_baseline(GString *out, const VialNetPolicy *policy)
{
	for (guint i = 0; i < policy->allow->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->allow, i);

		if (entry->kind == VIAL_NET_ENTRY_ALL)
			put_baseline_ports(out, policy, entry->port_from, entry->port_to);
	}
	if (policy->mode == VIAL_NET_OPEN)
		put_baseline_ports(out, policy, 0, G_MAXUINT16);
}

static void put_resolver(GString *out)
{
	g_string_append(out, RULE "ip daddr " VIAL_NET_GATEWAY_V4 " goto ask\n" RULE "ip6 daddr " VIAL_NET_GATEWAY_V6 " goto ask\n");
}

static void put_pin_sets(GString *out, guint groups)
{
	for (guint group = 0; group < groups; group++) {
		g_string_append_printf(out, "add set " GATE " pin4_%u { type ipv4_addr; flags timeout; }\n", group);
		g_string_append_printf(out, "add set " GATE " pin6_%u { type ipv6_addr; flags timeout; }\n", group);
		g_string_append_printf(out, "flush set " GATE " pin4_%u\nflush set " GATE " pin6_%u\n", group, group);
	}
}

void vial_rules_policy(GString *out, const VialNetPolicy *policy, const GArray *host_addresses, const char *hash, const char *old_hash)
{
	static const int families[] = { AF_INET, AF_INET6 };
	VialNetPorts ports[VIAL_NET_MAX_NAME_PORTS];
	guint groups = vial_net_policy_name_ports(policy, ports);

	g_string_append(out, "flush chain " GATE " rules\n");
	if (old_hash)
		g_string_append_printf(out, "delete chain " GATE " policy_%s\n", old_hash);
	g_string_append_printf(out, "add chain " GATE " policy_%s\n", hash);
	if (policy->mode == VIAL_NET_DISABLED)
		return;
	put_pin_sets(out, groups);
	put_resolver(out);
	g_string_append(out, RULE "ip daddr @sealed4 return\n" RULE "ip6 daddr @sealed6 return\n");
	put_host(out, policy, host_addresses);
	for (guint i = 0; i < 2; i++) {
		put_ranges(out, policy->allow, VIAL_SCOPE_CLOSED, families[i], "goto admit");
		g_string_append_printf(out, RULE "%s daddr @closed%d return\n", family_word(families[i]), i ? 6 : 4);
		put_ranges(out, policy->allow, VIAL_SCOPE_PUBLIC, families[i], "goto admit");
	}
	g_string_append(out, RULE "meta l4proto { tcp, udp } th dport { 53, 853 } return\n");
	for (guint group = 0; group < groups; group++)
		for (guint i = 0; i < 2; i++)
			put_pinned(out, families[i], group, ports[group]);
	for (guint i = 0; i < 2; i++)
		put_ranges(out, policy->deny, VIAL_SCOPE_SEALED, families[i], "return");
	put_baseline(out, policy);
}

void vial_rules_pin(GString *out, const VialNetPolicy *policy, const char *name, const VialAddress *address, guint seconds)
{
	VialNetPorts ports[VIAL_NET_MAX_NAME_PORTS];
	guint groups = vial_net_policy_name_ports(policy, ports);
	char text[VIAL_ADDRESS_TEXT_SIZE];

	vial_address_format(address, text);
	for (guint group = 0; group < groups; group++) {
		char set[16];

		if (!vial_net_policy_name_has_ports(policy, name, ports[group]))
			continue;
		pin_set(set, address->family, group);
		/* Adding an element that exists changes nothing, not even its timeout: it is added, removed and added. */
		g_string_append_printf(out,
		                       "add element " GATE " %s { %s }\ndelete element " GATE " %s { %s }\n"
		                       "add element " GATE " %s { %s timeout %us }\n",
		                       set, text, set, text, set, text, seconds);
	}
}

/* ---- the host ---- */

/*
 * A second wall, independent of the gates: whatever comes out of a gate may not reach the host itself, another gate, or a
 * sealed range, and nothing may be sent into a gate that did not ask. Shared by all viald of the host; putting the same
 * text twice changes nothing.
 */
static const char host_chains[] = " set named4 {\n"
				  "  type iface_index . ipv4_addr\n"
				  " }\n"
				  " set named6 {\n"
				  "  type iface_index . ipv6_addr\n"
				  " }\n"
				  " set sealed_ports {\n"
				  "  type inet_service\n"
				  " }\n"
				  " chain to_host {\n"
				  "  type filter hook input priority filter - 10; policy accept;\n"
				  "  iifname != \"" VIAL_HOST_PREFIX "*\" return\n"
				  "  meta l4proto icmpv6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept\n"
				  "  ct state established,related accept\n"
				  "  tcp dport @sealed_ports reject with icmpx no-route\n"
				  "  iif . ip daddr @named4 accept\n"
				  "  iif . ip6 daddr @named6 accept\n"
				  "  meta l4proto tcp reject with icmpx no-route\n"
				  "  reject with icmpx port-unreachable\n"
				  " }\n"
				  " chain through {\n"
				  "  type filter hook forward priority filter - 10; policy accept;\n"
				  "  iifname \"" VIAL_HOST_PREFIX "*\" jump outwards\n"
				  "  oifname \"" VIAL_HOST_PREFIX "*\" ct state != { established, related } drop\n"
				  " }\n"
				  " chain outwards {\n"
				  "  oifname \"" VIAL_HOST_PREFIX "*\" reject with icmpx no-route\n"
				  "  ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/4, 255.255.255.255, 168.63.129.16, 100.100.100.200,"
				  " 192.0.0.0/29, 192.0.0.192, 198.19.0.0/16 } reject with icmpx no-route\n"
				  "  ip6 daddr { ::/127, fe80::/10, ff00::/8, fd00:ec2::254, fd20:ce::254, fd76:6961:6c00::/47 }"
				  " reject with icmpx no-route\n"
				  " }\n"
				  " chain leave {\n"
				  "  type nat hook postrouting priority srcnat; policy accept;\n"
				  "  iifname \"" VIAL_HOST_PREFIX "*\" masquerade\n"
				  " }\n";

void vial_rules_host(GString *out, const guint16 *sealed_ports)
{
	/*
	 * Made if missing, emptied of rules, filled again, in one step. The sets keep their elements: those belong to running
	 * sandboxes, perhaps another daemon's.
	 */
	g_string_append(out, "add table inet vial_host\nflush table inet vial_host\ntable inet vial_host {\n");
	g_string_append(out, host_chains);
	g_string_append(out, "}\n");
	for (const guint16 *port = sealed_ports; port && *port; port++)
		g_string_append_printf(out, "add element inet vial_host sealed_ports { %u }\n", *port);
}

void vial_rules_host_open(GString *out, int interface_index, const VialAddress *address, gboolean is_open)
{
	char text[VIAL_ADDRESS_TEXT_SIZE];

	vial_address_format(address, text);
	g_string_append_printf(out, "%s element inet vial_host named%d { %d . %s }\n", is_open ? "add" : "delete", address->family == AF_INET ? 4 : 6,
	                       interface_index, text);
}
