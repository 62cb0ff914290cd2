/* SPDX-License-Identifier: Apache-2.0 */
#include "net/wiring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "net/net.h"
#include "net/netlink.h"
#include "net/netns.h"
#include "net/rules.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/log.h"

#define UPLINK_MAC "02:76:69:61:6c:03"
#define HOST_MAC "02:76:69:61:6c:04"

void vial_wiring_clear(VialWiring *wiring)
{
	g_clear_pointer(&wiring->name, g_free);
	g_clear_pointer(&wiring->gate_name, g_free);
}

void vial_wiring_name(VialWiring *wiring, const char *tag, guint number)
{
	vial_wiring_clear(wiring);
	wiring->number = number;
	wiring->name = g_strdup_printf("vial-%s-%u", tag, number);
	wiring->gate_name = g_strdup_printf("%s-gate", wiring->name);
	g_snprintf(wiring->host_interface, sizeof(wiring->host_interface), VIAL_HOST_PREFIX "%x", number);
}

gboolean vial_wiring_parse(VialWiring *wiring, const char *tag, const char *name)
{
	g_autofree char *prefix = g_strdup_printf("vial-%s-", tag);
	guint64 number;

	if (!g_str_has_prefix(name, prefix) || !g_ascii_string_to_unsigned(name + strlen(prefix), 10, 0, VIAL_SLOT_NUMBERS - 1, &number, NULL))
		return FALSE;
	vial_wiring_name(wiring, tag, (guint)number);
	return strcmp(wiring->name, name) == 0;
}

/* ---- sysctl ---- */

static gboolean has_ipv6(void)
{
	return access("/proc/sys/net/ipv6/conf/all", F_OK) == 0;
}

/* In the calling thread's namespace. What this kernel does not have is no loss: the value guards a feature. */
static gboolean sysctl(const char *name, const char *value)
{
	g_autofree char *path = g_strdup_printf("/proc/sys/net/%s", name);
	vial_autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, value, strlen(value)) > 0;
}

static gboolean sysctl_is(const char *name, const char *value)
{
	g_autofree char *path = g_strdup_printf("/proc/sys/net/%s", name);
	g_autofree char *text = NULL;

	return g_file_get_contents(path, &text, NULL, NULL) && strcmp(g_strstrip(text), value) == 0;
}

typedef struct {
	const char *name, *value;
} Sysctl;

static const Sysctl gate_sysctls[] = {
	{ "ipv4/ip_forward", "1" },
	{ "ipv6/conf/all/forwarding", "1" },
	{ "ipv6/conf/default/accept_ra", "0" },
	{ "ipv6/conf/default/accept_dad", "0" },
	{ "ipv6/conf/default/autoconf", "0" },
	{ "ipv4/conf/all/accept_redirects", "0" },
	{ "ipv4/conf/default/accept_redirects", "0" },
	{ "ipv6/conf/all/accept_redirects", "0" },
	{ "ipv6/conf/default/accept_redirects", "0" },
	{ "ipv4/conf/all/send_redirects", "0" },
	{ "ipv4/conf/default/send_redirects", "0" },
	{ "ipv4/conf/all/accept_source_route", "0" },
	{ "ipv4/conf/all/arp_ignore", "1" },
	/* Every refusal is answered; else the second one within a second looks like a lost packet. */
	{ "ipv4/icmp_ratelimit", "0" },
	{ "ipv6/icmp/ratelimit", "0" },
	/* A packet in the middle of an unknown connection is no new connection: cut and inherited ones stay dead. */
	{ "netfilter/nf_conntrack_tcp_loose", "0" },
	{ "netfilter/nf_conntrack_acct", "1" },
	{ "netfilter/nf_conntrack_tcp_timeout_established", "7440" },
};

static const Sysctl guest_sysctls[] = {
	{ "ipv6/conf/default/accept_ra", "0" },
	{ "ipv6/conf/default/accept_dad", "0" },
	{ "ipv6/conf/default/autoconf", "0" },
};

static gboolean apply_sysctls(int ns_fd, const Sysctl *list, gsize count, GError **error)
{
	if (!vial_netns_enter(ns_fd, error))
		return FALSE;
	for (gsize i = 0; i < count; i++)
		sysctl(list[i].name, list[i].value);

	/* Without this one a connection that was cut would come back to life. */
	gboolean is_strict = list != gate_sysctls || sysctl_is("netfilter/nf_conntrack_tcp_loose", "0");

	vial_netns_leave();
	if (!is_strict)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "this kernel has no connection tracking");
	return TRUE;
}

/* ---- building ---- */

static gboolean up(VialNetlink *netlink, const char *name, const char *alias, int *out_index, GError **error)
{
	int index = vial_netlink_index(netlink, name);

	if (!index)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "interface %s is missing", name);
	if (!vial_netlink_set_up(netlink, index, NULL, alias, error))
		return FALSE;
	if (out_index)
		*out_index = index;
	return TRUE;
}

static gboolean setup_guest(int guest_fd, GError **error)
{
	g_autoptr(VialNetlink) netlink = vial_netlink_open(guest_fd, error);
	int index;

	if (!netlink || !up(netlink, "lo", NULL, NULL, error) || !up(netlink, VIAL_NET_GUEST_INTERFACE, NULL, &index, error) ||
	    !vial_netlink_add_address(netlink, index, VIAL_NET_GUEST_V4, VIAL_NET_PREFIX_V4, error) ||
	    !vial_netlink_add_default_route(netlink, index, VIAL_NET_GATEWAY_V4, error))
		return FALSE;
	return !has_ipv6() || (vial_netlink_add_address(netlink, index, VIAL_NET_GUEST_V6, VIAL_NET_PREFIX_V6, error) &&
	                       vial_netlink_add_default_route(netlink, index, VIAL_NET_GATEWAY_V6, error));
}

/* Neighbours are fixed: nothing the guest says over ARP or ND changes where its packets go. */
static gboolean setup_inner(VialNetlink *netlink, int index, GError **error)
{
	if (!vial_netlink_add_address(netlink, index, VIAL_NET_GATEWAY_V4, VIAL_NET_PREFIX_V4, error) ||
	    !vial_netlink_add_neighbour(netlink, index, VIAL_NET_GUEST_V4, VIAL_NET_GUEST_MAC, error))
		return FALSE;
	return !has_ipv6() || (vial_netlink_add_address(netlink, index, VIAL_NET_GATEWAY_V6, VIAL_NET_PREFIX_V6, error) &&
	                       vial_netlink_add_neighbour(netlink, index, VIAL_NET_GUEST_V6, VIAL_NET_GUEST_MAC, error));
}

typedef struct {
	char host_v4[32], gate_v4[32], host_v6[64], gate_v6[64];
} UplinkAddresses;

static void uplink_addresses(guint number, UplinkAddresses *out)
{
	guint v4 = number * 2;

	g_snprintf(out->host_v4, sizeof(out->host_v4), "198.19.%u.%u", v4 >> 8, v4 & 255);
	g_snprintf(out->gate_v4, sizeof(out->gate_v4), "198.19.%u.%u", v4 >> 8, (v4 & 255) + 1);
	g_snprintf(out->host_v6, sizeof(out->host_v6), "fd76:6961:6c01:%x::1", number);
	g_snprintf(out->gate_v6, sizeof(out->gate_v6), "fd76:6961:6c01:%x::2", number);
}

static gboolean setup_gate(int gate_fd, const UplinkAddresses *uplink, guint64 bytes_per_second, GError **error)
{
	g_autoptr(VialNetlink) netlink = vial_netlink_open(gate_fd, error);
	int index, inner;

	if (!netlink || !up(netlink, "lo", NULL, NULL, error) || !up(netlink, VIAL_GATE_INTERFACE, NULL, &inner, error) ||
	    !setup_inner(netlink, inner, error) || !up(netlink, VIAL_GATE_UPLINK, NULL, &index, error) ||
	    !vial_netlink_add_address(netlink, index, uplink->gate_v4, 31, error) ||
	    !vial_netlink_add_neighbour(netlink, index, uplink->host_v4, HOST_MAC, error) ||
	    !vial_netlink_add_default_route(netlink, index, uplink->host_v4, error))
		return FALSE;
	if (has_ipv6() && (!vial_netlink_add_address(netlink, index, uplink->gate_v6, 64, error) ||
	                   !vial_netlink_add_neighbour(netlink, index, uplink->host_v6, HOST_MAC, error) ||
	                   !vial_netlink_add_default_route(netlink, index, uplink->host_v6, error)))
		return FALSE;
	if (!bytes_per_second)
		return TRUE;
	return vial_netlink_set_rate(netlink, inner, bytes_per_second, error) && vial_netlink_set_rate(netlink, index, bytes_per_second, error);
}

static gboolean setup_host(const char *interface, const char *alias, const UplinkAddresses *uplink, GError **error)
{
	g_autoptr(VialNetlink) netlink = vial_netlink_open(vial_netns_home(), error);
	g_autofree char *forwarding = g_strdup_printf("ipv4/conf/%s/forwarding", interface);
	g_autofree char *router_advertisements = g_strdup_printf("ipv6/conf/%s/accept_ra", interface);
	int index;

	if (!netlink || !up(netlink, interface, alias, &index, error) || !vial_netlink_add_address(netlink, index, uplink->host_v4, 31, error) ||
	    !vial_netlink_add_neighbour(netlink, index, uplink->gate_v4, UPLINK_MAC, error))
		return FALSE;
	sysctl(forwarding, "1");
	sysctl(router_advertisements, "0");
	return !has_ipv6() || (vial_netlink_add_address(netlink, index, uplink->host_v6, 64, error) &&
	                       vial_netlink_add_neighbour(netlink, index, uplink->gate_v6, UPLINK_MAC, error));
}

static gboolean add_uplink(VialNetlink *gate, const char *interface, guint mtu, GError **error)
{
	VialVeth veth = {
		.name = VIAL_GATE_UPLINK,
		.mac = UPLINK_MAC,
		.peer_name = interface,
		.peer_mac = HOST_MAC,
		.peer_ns_fd = vial_netns_home(),
		.mtu = mtu,
	};

	return vial_netlink_add_veth(gate, &veth, error);
}

static gboolean add_inner(VialNetlink *gate, int guest_fd, GError **error)
{
	VialVeth veth = {
		.name = VIAL_GATE_INTERFACE,
		.mac = VIAL_NET_GATEWAY_MAC,
		.peer_name = VIAL_NET_GUEST_INTERFACE,
		.peer_mac = VIAL_NET_GUEST_MAC,
		.peer_ns_fd = guest_fd,
		.mtu = VIAL_NET_MTU,
	};

	return vial_netlink_add_veth(gate, &veth, error);
}

/* Behind a gate that has its uplink. */
static gboolean build_guest(const VialWiring *wiring, VialNetlink *gate, GError **error)
{
	vial_autofd int guest_fd = vial_netns_create(wiring->name, error);

	if (guest_fd < 0)
		return FALSE;
	if (apply_sysctls(guest_fd, guest_sysctls, G_N_ELEMENTS(guest_sysctls), error) && add_inner(gate, guest_fd, error) &&
	    setup_guest(guest_fd, error))
		return TRUE;
	vial_netns_remove(wiring->name, NULL);
	return FALSE;
}

gboolean vial_wiring_renew_guest(const VialWiring *wiring, GError **error)
{
	vial_autofd int guest_fd = vial_netns_open(wiring->name, error);

	return guest_fd >= 0 && setup_guest(guest_fd, error);
}

static gboolean build_links(const VialWiring *wiring, int gate_fd, const char *alias, guint mtu, guint64 bytes_per_second, GError **error)
{
	g_autoptr(VialNetlink) gate = vial_netlink_open(gate_fd, error);
	UplinkAddresses uplink;

	if (!gate || !add_uplink(gate, wiring->host_interface, mtu, error) || !build_guest(wiring, gate, error))
		return FALSE;
	uplink_addresses(wiring->number, &uplink);
	if (setup_gate(gate_fd, &uplink, bytes_per_second, error) && setup_host(wiring->host_interface, alias, &uplink, error))
		return TRUE;
	vial_netns_remove(wiring->name, NULL);
	return FALSE;
}

/*
 * The slot under exactly this number. VIAL_ERROR_CONFLICT: another daemon has it, or a slot of our own does, which a thread beside us may be building
 * and a sandbox may be using. So on failure only what was made here goes; a link goes with the namespace its other end is in.
 */
static gboolean build_number(const VialWiring *wiring, const char *alias, guint mtu, guint64 bytes_per_second, GError **error)
{
	vial_autofd int gate_fd = vial_netns_create(wiring->gate_name, error);

	if (gate_fd < 0)
		return FALSE;
	if (apply_sysctls(gate_fd, gate_sysctls, G_N_ELEMENTS(gate_sysctls), error) &&
	    build_links(wiring, gate_fd, alias, mtu, bytes_per_second, error))
		return TRUE;
	vial_netns_remove(wiring->gate_name, NULL);
	return FALSE;
}

gboolean vial_wiring_build(VialWiring *wiring, const char *tag, const char *alias, guint first_number, guint mtu, guint64 bytes_per_second,
                           GError **error)
{
	for (guint i = 0; i < VIAL_SLOT_NUMBERS; i++) {
		g_autoptr(GError) problem = NULL;

		vial_wiring_name(wiring, tag, (first_number + i) % VIAL_SLOT_NUMBERS);
		if (build_number(wiring, alias, mtu, bytes_per_second, &problem))
			return TRUE;
		if (g_error_matches(problem, VIAL_ERROR, VIAL_ERROR_CONFLICT))
			continue;
		g_propagate_error(error, g_steal_pointer(&problem));
		return FALSE;
	}
	return vial_fail(error, VIAL_ERROR_QUOTA, "all %d network slots of this host are taken", VIAL_SLOT_NUMBERS);
}

gboolean vial_wiring_set_rate(int gate_fd, guint64 bytes_per_second, GError **error)
{
	g_autoptr(VialNetlink) netlink = vial_netlink_open(gate_fd, error);

	return netlink && vial_netlink_set_rate(netlink, vial_netlink_index(netlink, VIAL_GATE_INTERFACE), bytes_per_second, error) &&
	       vial_netlink_set_rate(netlink, vial_netlink_index(netlink, VIAL_GATE_UPLINK), bytes_per_second, error);
}

static int tap_open(GError **error)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	vial_autofd int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	g_strlcpy(request.ifr_name, VIAL_GATE_INTERFACE, sizeof(request.ifr_name));
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot make a TAP device: %s", g_strerror(errno));
		return -1;
	}
	return vial_fd_steal(&fd);
}

int vial_wiring_open_tap(int gate_fd, guint64 bytes_per_second, GError **error)
{
	g_autoptr(VialNetlink) netlink = vial_netlink_open(gate_fd, error);
	vial_autofd int fd = -1;
	int index;

	if (!netlink)
		return -1;
	index = vial_netlink_index(netlink, VIAL_GATE_INTERFACE);
	if (index && !vial_netlink_delete(netlink, index, error))
		return -1;
	if (!vial_netns_enter(gate_fd, error))
		return -1;
	fd = tap_open(error);
	vial_netns_leave();
	if (fd < 0)
		return -1;
	index = vial_netlink_index(netlink, VIAL_GATE_INTERFACE);
	if (!vial_netlink_set_up(netlink, index, VIAL_NET_GATEWAY_MAC, NULL, error) || !setup_inner(netlink, index, error) ||
	    (bytes_per_second && !vial_netlink_set_rate(netlink, index, bytes_per_second, error)))
		return -1;
	return vial_fd_steal(&fd);
}

gboolean vial_wiring_traffic(int gate_fd, guint64 *out_from_guest, guint64 *out_to_guest)
{
	g_autoptr(VialNetlink) netlink = vial_netlink_open(gate_fd, NULL);

	return netlink && vial_netlink_traffic(netlink, vial_netlink_index(netlink, VIAL_GATE_INTERFACE), out_from_guest, out_to_guest);
}

void vial_wiring_remove(const VialWiring *wiring)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(VialNetlink) netlink = vial_netlink_open(vial_netns_home(), &error);
	int index = netlink ? vial_netlink_index(netlink, wiring->host_interface) : 0;

	if (index && !vial_netlink_delete(netlink, index, &error))
		vial_log_warning("net", "an interface could not be removed", "interface", wiring->host_interface, "error", error->message);
	g_clear_error(&error);
	if (!vial_netns_remove(wiring->name, &error)) {
		vial_log_warning("net", "a network namespace could not be removed", "error", error->message);
		g_clear_error(&error);
	}
	if (!vial_netns_remove(wiring->gate_name, &error))
		vial_log_warning("net", "a network namespace could not be removed", "error", error->message);
}

/* ---- what is there ---- */

typedef struct {
	const char *tag;
	GHashTable *numbers;
} Listing;

static void list_link(int index, const char *name, const char *alias, guint mtu, gpointer data)
{
	Listing *listing = data;
	gsize tag_bytes = strlen(listing->tag);
	guint64 number;

	/* "vial:<tag> <data directory>" */
	if (g_str_has_prefix(name, VIAL_HOST_PREFIX) && alias && g_str_has_prefix(alias, "vial:") &&
	    strncmp(alias + 5, listing->tag, tag_bytes) == 0 && (!alias[5 + tag_bytes] || alias[5 + tag_bytes] == ' ') &&
	    g_ascii_string_to_unsigned(name + strlen(VIAL_HOST_PREFIX), 16, 0, VIAL_SLOT_NUMBERS - 1, &number, NULL))
		g_hash_table_add(listing->numbers, GUINT_TO_POINTER((guint)number + 1));
}

static void list_namespaces(Listing *listing)
{
	g_autoptr(GDir) dir = g_dir_open(VIAL_NETNS_DIR, 0, NULL);
	const char *entry;

	while (dir && (entry = g_dir_read_name(dir))) {
		g_autofree char *name = g_str_has_suffix(entry, "-gate") ? g_strndup(entry, strlen(entry) - 5) : g_strdup(entry);
		VialWiring wiring = { 0 };

		if (vial_wiring_parse(&wiring, listing->tag, name))
			g_hash_table_add(listing->numbers, GUINT_TO_POINTER(wiring.number + 1));
		vial_wiring_clear(&wiring);
	}
}

GArray *vial_wiring_list(const char *tag)
{
	g_autoptr(GHashTable) numbers = g_hash_table_new(NULL, NULL);
	g_autoptr(VialNetlink) netlink = vial_netlink_open(vial_netns_home(), NULL);
	GArray *array = g_array_new(FALSE, FALSE, sizeof(guint));
	Listing listing = { .tag = tag, .numbers = numbers };
	GHashTableIter iter;
	gpointer key;

	if (netlink)
		vial_netlink_each_link(netlink, list_link, &listing, NULL);
	list_namespaces(&listing);
	g_hash_table_iter_init(&iter, numbers);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		guint number = GPOINTER_TO_UINT(key) - 1;

		g_array_append_val(array, number);
	}
	return array;
}

/* ---- the host ---- */

typedef struct {
	GArray *ways; /* Way */
	gboolean has_v6_way;
	guint mtu;
} Ways;

typedef struct {
	int index;
	int family;
} Way;

static void collect_way(int family, int index, gpointer data)
{
	Ways *ways = data;
	Way way = { .index = index, .family = family };

	g_array_append_val(ways->ways, way);
	if (family == AF_INET6)
		ways->has_v6_way = TRUE;
}

/*
 * Forwarding is asked for only where it is needed: IPv4 per interface, on the ways out (and on each slot's link). IPv6 has
 * only the host-wide switch; turning it on makes the kernel ignore router advertisements, so interfaces that live on them
 * are told to go on listening first.
 */
static void open_way(int index, const char *name, const char *alias, guint mtu, gpointer data)
{
	Ways *ways = data;

	for (guint i = 0; i < ways->ways->len; i++) {
		const Way *way = &g_array_index(ways->ways, Way, i);
		g_autofree char *forwarding = g_strdup_printf("ipv4/conf/%s/forwarding", name);
		g_autofree char *advertisements = g_strdup_printf("ipv6/conf/%s/accept_ra", name);

		if (way->index != index)
			continue;
		ways->mtu = MIN(ways->mtu, mtu);
		if (way->family == AF_INET && !sysctl_is(forwarding, "1") && sysctl(forwarding, "1"))
			vial_log_info("net", "let the host forward", "interface", name);
		if (way->family == AF_INET6 && sysctl_is(advertisements, "1"))
			sysctl(advertisements, "2");
	}
}

/* Loopback and the slots' own links are sealed for everyone anyway, and there may be thousands of them. */
static void collect_address(int index, const VialAddress *address, gpointer data)
{
	if (vial_address_scope(address, NULL) != VIAL_SCOPE_SEALED)
		g_array_append_vals(data, address, 1);
}

gboolean vial_host_refresh(VialHostFacts *facts, GError **error)
{
	g_autoptr(VialNetlink) netlink = vial_netlink_open(vial_netns_home(), error);
	g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(Way));
	Ways ways = { .ways = list, .mtu = VIAL_NET_MTU };

	if (!netlink || !vial_netlink_each_default_route(netlink, collect_way, &ways, error) ||
	    !vial_netlink_each_link(netlink, open_way, &ways, error))
		return FALSE;
	if (ways.has_v6_way && !sysctl_is("ipv6/conf/all/forwarding", "1") && sysctl("ipv6/conf/all/forwarding", "1"))
		vial_log_info("net", "let the host forward IPv6");
	facts->mtu = MAX(ways.mtu, 1280);
	if (!facts->addresses)
		facts->addresses = g_array_new(FALSE, FALSE, sizeof(VialAddress));
	g_array_set_size(facts->addresses, 0);
	return vial_netlink_each_address(netlink, collect_address, facts->addresses, error);
}

int vial_wiring_host_index(const VialWiring *wiring)
{
	g_autoptr(VialNetlink) netlink = vial_netlink_open(vial_netns_home(), NULL);

	return netlink ? vial_netlink_index(netlink, wiring->host_interface) : 0;
}
