/* SPDX-License-Identifier: Apache-2.0 */
#include "net/netlink.h"

#include <errno.h>
#include <stdbool.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "net/netns.h"
#include "util/error.h"

#define DUMP_TRIES 20
#define BUFFER_BYTES 32768
#define REQUEST_BYTES 2048

struct VialNetlink {
	struct mnl_socket *socket;
	guint32 sequence;
	guint32 port;
};

VialNetlink *vial_netlink_open(int ns_fd, GError **error)
{
	g_autoptr(VialNetlink) netlink = g_new0(VialNetlink, 1);
	gboolean is_bound = FALSE;

	if (!vial_netns_enter(ns_fd, error))
		return NULL;
	netlink->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (netlink->socket)
		is_bound = mnl_socket_bind(netlink->socket, 0, MNL_SOCKET_AUTOPID) == 0;
	vial_netns_leave();
	if (!is_bound) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open rtnetlink: %s", g_strerror(errno));
		return NULL;
	}
	netlink->port = mnl_socket_get_portid(netlink->socket);
	return g_steal_pointer(&netlink);
}

void vial_netlink_close(VialNetlink *netlink)
{
	if (!netlink)
		return;
	if (netlink->socket)
		mnl_socket_close(netlink->socket);
	g_free(netlink);
}

static bool is_last(const char *buffer, ssize_t size)
{
	const struct nlmsghdr *message = (const struct nlmsghdr *)buffer;
	int left = (int)size;

	for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left))
		if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
			return true;
	return false;
}

/* The kernel says in the middle of a list that it changed meanwhile; the rest of that list must be read before the next question. */
static void drain(VialNetlink *netlink, char *buffer, ssize_t size)
{
	while (size >= 0 && !is_last(buffer, size))
		size = mnl_socket_recvfrom(netlink->socket, buffer, BUFFER_BYTES);
}

/* Sends one request and hands every answer to `each`; 0 or an errno. */
static int talk(VialNetlink *netlink, struct nlmsghdr *request, mnl_cb_t each, gpointer data)
{
	g_autofree char *buffer = g_malloc(BUFFER_BYTES);
	int rc = MNL_CB_OK;

	request->nlmsg_seq = ++netlink->sequence;
	if (mnl_socket_sendto(netlink->socket, request, request->nlmsg_len) < 0)
		return errno;
	while (rc > MNL_CB_STOP) {
		ssize_t size = mnl_socket_recvfrom(netlink->socket, buffer, BUFFER_BYTES);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			return errno;
		rc = mnl_cb_run(buffer, (size_t)size, netlink->sequence, netlink->port, each, data);
		if (rc < 0 && errno == EINTR) {
			drain(netlink, buffer, size);
			return EINTR;
		}
	}
	return rc < 0 ? errno : 0;
}

static gboolean command(VialNetlink *netlink, struct nlmsghdr *request, const char *what, GError **error)
{
	int problem;

	request->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	problem = talk(netlink, request, NULL, NULL);
	if (problem)
		return vial_fail(error, problem == EEXIST ? VIAL_ERROR_CONFLICT : VIAL_ERROR_INTERNAL, "cannot %s: %s", what, g_strerror(problem));
	return TRUE;
}

static struct nlmsghdr *start(char *buffer, guint16 type, guint16 flags)
{
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);

	request->nlmsg_type = type;
	request->nlmsg_flags = flags;
	return request;
}

static struct ifinfomsg *put_link(struct nlmsghdr *request, int index)
{
	struct ifinfomsg *link = mnl_nlmsg_put_extra_header(request, sizeof(*link));

	link->ifi_family = AF_UNSPEC;
	link->ifi_index = index;
	return link;
}

static void put_mac(struct nlmsghdr *request, guint16 attribute, const char *text)
{
	unsigned mac[6];
	guint8 bytes[6];
	int found = sscanf(text, "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]);

	g_assert(found == 6);
	for (int i = 0; i < 6; i++)
		bytes[i] = (guint8)mac[i];
	mnl_attr_put(request, attribute, sizeof(bytes), bytes);
}

gboolean vial_netlink_add_veth(VialNetlink *netlink, const VialVeth *veth, GError **error)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	struct nlattr *info, *data, *peer;

	put_link(request, 0);
	mnl_attr_put_strz(request, IFLA_IFNAME, veth->name);
	mnl_attr_put_u32(request, IFLA_MTU, veth->mtu);
	put_mac(request, IFLA_ADDRESS, veth->mac);
	info = mnl_attr_nest_start(request, IFLA_LINKINFO);
	mnl_attr_put_strz(request, IFLA_INFO_KIND, "veth");
	data = mnl_attr_nest_start(request, IFLA_INFO_DATA);
	peer = mnl_attr_nest_start(request, VETH_INFO_PEER);
	put_link(request, 0);
	mnl_attr_put_strz(request, IFLA_IFNAME, veth->peer_name);
	mnl_attr_put_u32(request, IFLA_MTU, veth->mtu);
	put_mac(request, IFLA_ADDRESS, veth->peer_mac);
	mnl_attr_put_u32(request, IFLA_NET_NS_FD, (guint32)veth->peer_ns_fd);
	mnl_attr_nest_end(request, peer);
	mnl_attr_nest_end(request, data);
	mnl_attr_nest_end(request, info);
	return command(netlink, request, "make a veth pair", error);
}

static int index_from_answer(const struct nlmsghdr *answer, void *data)
{
	const struct ifinfomsg *link = mnl_nlmsg_get_payload(answer);

	*(int *)data = link->ifi_index;
	return MNL_CB_OK;
}

int vial_netlink_index(VialNetlink *netlink, const char *name)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, RTM_GETLINK, NLM_F_REQUEST | NLM_F_ACK);
	int index = 0;

	put_link(request, 0);
	mnl_attr_put_strz(request, IFLA_IFNAME, name);
	return talk(netlink, request, index_from_answer, &index) == 0 ? index : 0;
}

gboolean vial_netlink_set_up(VialNetlink *netlink, int index, const char *mac, const char *alias, GError **error)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, RTM_NEWLINK, 0);
	struct ifinfomsg *link = put_link(request, index);

	link->ifi_flags = IFF_UP;
	link->ifi_change = IFF_UP;
	if (mac)
		put_mac(request, IFLA_ADDRESS, mac);
	if (alias)
		mnl_attr_put_strz(request, IFLA_IFALIAS, alias);
	return command(netlink, request, "bring an interface up", error);
}

gboolean vial_netlink_delete(VialNetlink *netlink, int index, GError **error)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, RTM_DELLINK, 0);

	put_link(request, index);
	return command(netlink, request, "remove an interface", error);
}

static gsize address_bytes(const VialAddress *address)
{
	return address->family == AF_INET ? 4 : 16;
}

static VialAddress parse(const char *text)
{
	VialAddress address;
	gboolean is_address = vial_address_parse(text, &address);

	g_assert(is_address);
	return address;
}

gboolean vial_netlink_add_address(VialNetlink *netlink, int index, const char *text, int prefix, GError **error)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
	VialAddress address = parse(text);
	struct ifaddrmsg *message = mnl_nlmsg_put_extra_header(request, sizeof(*message));

	message->ifa_family = address.family;
	message->ifa_prefixlen = (guint8)prefix;
	message->ifa_flags = IFA_F_PERMANENT | (address.family == AF_INET6 ? IFA_F_NODAD : 0);
	message->ifa_scope = RT_SCOPE_UNIVERSE;
	message->ifa_index = (guint32)index;
	mnl_attr_put(request, IFA_LOCAL, address_bytes(&address), address.bytes);
	mnl_attr_put(request, IFA_ADDRESS, address_bytes(&address), address.bytes);
	return command(netlink, request, "add an address", error);
}

gboolean vial_netlink_add_default_route(VialNetlink *netlink, int index, const char *gateway, GError **error)
{
	char buffer[REQUEST_BYTES];
	/* IPv6's stays when a runsc takes the addresses away. */
	struct nlmsghdr *request = start(buffer, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
	VialAddress address = parse(gateway);
	struct rtmsg *route = mnl_nlmsg_put_extra_header(request, sizeof(*route));

	route->rtm_family = address.family;
	route->rtm_table = RT_TABLE_MAIN;
	route->rtm_protocol = RTPROT_STATIC;
	route->rtm_scope = RT_SCOPE_UNIVERSE;
	route->rtm_type = RTN_UNICAST;
	mnl_attr_put(request, RTA_GATEWAY, address_bytes(&address), address.bytes);
	mnl_attr_put_u32(request, RTA_OIF, (guint32)index);
	return command(netlink, request, "add a default route", error);
}

gboolean vial_netlink_add_neighbour(VialNetlink *netlink, int index, const char *text, const char *mac, GError **error)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE);
	VialAddress address = parse(text);
	struct ndmsg *neighbour = mnl_nlmsg_put_extra_header(request, sizeof(*neighbour));

	neighbour->ndm_family = address.family;
	neighbour->ndm_ifindex = index;
	neighbour->ndm_state = NUD_PERMANENT;
	mnl_attr_put(request, NDA_DST, address_bytes(&address), address.bytes);
	put_mac(request, NDA_LLADDR, mac);
	return command(netlink, request, "set a neighbour", error);
}

/*
 * TBF with the burst given in bytes and the link layer named, so that the kernel needs none of the rate tables that
 * tc(8) computes for old ones. The burst holds one full GSO packet and ten milliseconds at the rate; the queue another
 * fifty, after which packets are dropped and TCP slows down.
 */
gboolean vial_netlink_set_rate(VialNetlink *netlink, int index, guint64 bytes_per_second, GError **error)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, bytes_per_second ? RTM_NEWQDISC : RTM_DELQDISC, bytes_per_second ? NLM_F_CREATE | NLM_F_REPLACE : 0);
	struct tcmsg *message = mnl_nlmsg_put_extra_header(request, sizeof(*message));
	guint32 burst = (guint32)MIN(MAX(bytes_per_second / 100, 128 * 1024), 64 * 1024 * 1024);
	struct tc_tbf_qopt options = {
		.rate = { .linklayer = TC_LINKLAYER_ETHERNET, .rate = (guint32)MIN(bytes_per_second, G_MAXUINT32) },
		.limit = (guint32)MIN(burst + bytes_per_second / 20, G_MAXUINT32),
	};
	struct nlattr *nest;

	message->tcm_family = AF_UNSPEC;
	message->tcm_ifindex = index;
	message->tcm_parent = TC_H_ROOT;
	if (!bytes_per_second) {
		if (!command(netlink, request, "remove a rate limit", NULL))
			return TRUE; /* there was none */
		return TRUE;
	}
	message->tcm_handle = 1 << 16;
	mnl_attr_put_strz(request, TCA_KIND, "tbf");
	nest = mnl_attr_nest_start(request, TCA_OPTIONS);
	mnl_attr_put(request, TCA_TBF_PARMS, sizeof(options), &options);
	mnl_attr_put_u32(request, TCA_TBF_BURST, burst);
	mnl_attr_put_u64(request, TCA_TBF_RATE64, bytes_per_second);
	mnl_attr_nest_end(request, nest);
	return command(netlink, request, "set a rate limit", error);
}

typedef struct {
	guint64 received, sent;
	gboolean is_known;
} Traffic;

static int traffic_from_answer(const struct nlmsghdr *answer, void *data)
{
	Traffic *traffic = data;
	struct nlattr *attribute;

	mnl_attr_for_each (attribute, answer, sizeof(struct ifinfomsg)) {
		struct rtnl_link_stats64 stats;

		if (mnl_attr_get_type(attribute) != IFLA_STATS64)
			continue;
		memset(&stats, 0, sizeof(stats));
		memcpy(&stats, mnl_attr_get_payload(attribute), MIN(sizeof(stats), mnl_attr_get_payload_len(attribute)));
		traffic->received = stats.rx_bytes;
		traffic->sent = stats.tx_bytes;
		traffic->is_known = TRUE;
	}
	return MNL_CB_OK;
}

gboolean vial_netlink_traffic(VialNetlink *netlink, int index, guint64 *out_received, guint64 *out_sent)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, RTM_GETLINK, NLM_F_REQUEST | NLM_F_ACK);
	Traffic traffic = { 0 };

	put_link(request, index);
	if (talk(netlink, request, traffic_from_answer, &traffic) != 0 || !traffic.is_known)
		return FALSE;
	*out_received = traffic.received;
	*out_sent = traffic.sent;
	return TRUE;
}

/* ---- dumps ---- */

typedef struct {
	VialLinkFunc link;
	VialAddressFunc address;
	VialRouteFunc route;
	gpointer data;
} Each;

static int each_link(const struct nlmsghdr *answer, void *data)
{
	const struct ifinfomsg *link = mnl_nlmsg_get_payload(answer);
	const Each *each = data;
	const char *name = NULL;
	const char *alias = NULL;
	guint mtu = 0;
	struct nlattr *attribute;

	mnl_attr_for_each (attribute, answer, sizeof(*link)) {
		if (mnl_attr_get_type(attribute) == IFLA_IFNAME)
			name = mnl_attr_get_str(attribute);
		else if (mnl_attr_get_type(attribute) == IFLA_IFALIAS)
			alias = mnl_attr_get_str(attribute);
		else if (mnl_attr_get_type(attribute) == IFLA_MTU)
			mtu = mnl_attr_get_u32(attribute);
	}
	if (name)
		each->link(link->ifi_index, name, alias, mtu, each->data);
	return MNL_CB_OK;
}

static int each_address(const struct nlmsghdr *answer, void *data)
{
	const struct ifaddrmsg *message = mnl_nlmsg_get_payload(answer);
	const Each *each = data;
	const void *local = NULL;
	const void *remote = NULL;
	struct nlattr *attribute;
	VialAddress address;

	mnl_attr_for_each (attribute, answer, sizeof(*message)) {
		if (mnl_attr_get_type(attribute) == IFA_LOCAL)
			local = mnl_attr_get_payload(attribute);
		else if (mnl_attr_get_type(attribute) == IFA_ADDRESS)
			remote = mnl_attr_get_payload(attribute);
	}
	if (!local)
		local = remote;
	if (local && (message->ifa_family == AF_INET || message->ifa_family == AF_INET6)) {
		vial_address_from_bytes(message->ifa_family, local, &address);
		each->address((int)message->ifa_index, &address, each->data);
	}
	return MNL_CB_OK;
}

static int each_route(const struct nlmsghdr *answer, void *data)
{
	const struct rtmsg *route = mnl_nlmsg_get_payload(answer);
	const Each *each = data;
	struct nlattr *attribute;

	if (route->rtm_dst_len != 0 || route->rtm_table != RT_TABLE_MAIN || route->rtm_type != RTN_UNICAST)
		return MNL_CB_OK;
	mnl_attr_for_each (attribute, answer, sizeof(*route)) {
		if (mnl_attr_get_type(attribute) == RTA_OIF)
			each->route(route->rtm_family, (int)mnl_attr_get_u32(attribute), each->data);
	}
	return MNL_CB_OK;
}

static gboolean dump(VialNetlink *netlink, guint16 type, guint8 family, mnl_cb_t func, Each *each, GError **error)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, type, NLM_F_REQUEST | NLM_F_DUMP);
	struct rtmsg *header = mnl_nlmsg_put_extra_header(request, sizeof(struct ifinfomsg));
	int problem = EINTR;

	header->rtm_family = family;
	/* A list that changed while it was read is read again; what was told already is told twice, which no caller minds. */
	for (int tries = 0; tries < DUMP_TRIES; tries++) {
		problem = talk(netlink, request, func, each);
		if (problem != EINTR)
			break;
	}
	if (problem)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot list the host's network: %s", g_strerror(problem));
	return TRUE;
}

gboolean vial_netlink_each_link(VialNetlink *netlink, VialLinkFunc func, gpointer data, GError **error)
{
	Each each = { .link = func, .data = data };

	return dump(netlink, RTM_GETLINK, AF_UNSPEC, each_link, &each, error);
}

gboolean vial_netlink_each_address(VialNetlink *netlink, VialAddressFunc func, gpointer data, GError **error)
{
	Each each = { .address = func, .data = data };

	return dump(netlink, RTM_GETADDR, AF_UNSPEC, each_address, &each, error);
}

gboolean vial_netlink_each_default_route(VialNetlink *netlink, VialRouteFunc func, gpointer data, GError **error)
{
	Each each = { .route = func, .data = data };

	return dump(netlink, RTM_GETROUTE, AF_INET, each_route, &each, error) && dump(netlink, RTM_GETROUTE, AF_INET6, each_route, &each, error);
}
