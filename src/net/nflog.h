/* SPDX-License-Identifier: Apache-2.0 */
/* What the gate's rules log: the first packet of a connection that they admitted or refused. Main thread. */
#pragma once

#include <glib.h>

#include "net/address.h"

typedef struct {
	const char *prefix; /* "allow", "deny", "limit": what the rule said */
	guint8 protocol;
	VialAddress address; /* destination */
	guint16 port;
	guint16 guest_port;
} VialLogPacket;

typedef void (*VialLogPacketFunc)(const VialLogPacket *packet, gpointer data);

/* A source on the main loop; remove it with g_source_remove(). 0 on failure. */
guint vial_nflog_watch(int ns_fd, guint16 group, VialLogPacketFunc func, gpointer data, GError **error);

/* The destination and ports of an IP packet whose first `size` bytes are given; FALSE when they do not say. */
gboolean vial_packet_parse(const guint8 *bytes, gsize size, VialLogPacket *out);
