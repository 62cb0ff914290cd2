/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few rtnetlink requests that a slot needs, over libmnl: links, addresses, routes, neighbours, rate limits. Each
 * call is one request and its acknowledgement. A VialNetlink belongs to one namespace and one thread at a time.
 */
#pragma once

#include <glib.h>

#include "net/address.h"

typedef struct VialNetlink VialNetlink;

VialNetlink *vial_netlink_open(int ns_fd, GError **error);
void vial_netlink_close(VialNetlink *netlink);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialNetlink, vial_netlink_close)

typedef struct {
	const char *name;
	const char *mac;
	const char *peer_name;
	const char *peer_mac;
	int peer_ns_fd;
	guint mtu;
} VialVeth;

/* VIAL_ERROR_CONFLICT when a name is taken. */
gboolean vial_netlink_add_veth(VialNetlink *netlink, const VialVeth *veth, GError **error);
/* 0 when there is none. */
int vial_netlink_index(VialNetlink *netlink, const char *name);
/* Brings it up; `mac` and `alias` may be NULL. */
gboolean vial_netlink_set_up(VialNetlink *netlink, int index, const char *mac, const char *alias, GError **error);
gboolean vial_netlink_delete(VialNetlink *netlink, int index, GError **error);

/* Without duplicate address detection. */
gboolean vial_netlink_add_address(VialNetlink *netlink, int index, const char *address, int prefix, GError **error);
gboolean vial_netlink_add_default_route(VialNetlink *netlink, int index, const char *gateway, GError **error);
gboolean vial_netlink_add_neighbour(VialNetlink *netlink, int index, const char *address, const char *mac, GError **error);

/* A token bucket on what leaves by the interface; 0 removes it. */
gboolean vial_netlink_set_rate(VialNetlink *netlink, int index, guint64 bytes_per_second, GError **error);

/* bytes_received and bytes_sent of an interface. */
gboolean vial_netlink_traffic(VialNetlink *netlink, int index, guint64 *out_received, guint64 *out_sent);

typedef void (*VialLinkFunc)(int index, const char *name, const char *alias, guint mtu, gpointer data);
gboolean vial_netlink_each_link(VialNetlink *netlink, VialLinkFunc func, gpointer data, GError **error);
typedef void (*VialAddressFunc)(int index, const VialAddress *address, gpointer data);
gboolean vial_netlink_each_address(VialNetlink *netlink, VialAddressFunc func, gpointer data, GError **error);
/* Interfaces that have a default route of this family. */
typedef void (*VialRouteFunc)(int family, int index, gpointer data);
gboolean vial_netlink_each_default_route(VialNetlink *netlink, VialRouteFunc func, gpointer data, GError **error);
