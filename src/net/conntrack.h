/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's connections as its kernel tracks them: listed, deleted one by one, and reported when they end (with their
 * byte counts). Watching is for the main thread.
 */
#pragma once

#include <glib.h>

#include "net/address.h"

typedef struct {
	guint8 protocol;     /* IPPROTO_* */
	VialAddress address; /* where the guest wanted to go */
	guint16 port;        /* 0 for ICMP */
	guint16 guest_port;
	guint32 mark;
	guint64 bytes_out, bytes_in;
} VialConnection;

/* Those there are, GPtrArray of VialTracked. Walks the connections of the whole host. Any thread. */
typedef struct {
	VialConnection connection;
	gpointer deletion; /* conntrack.c's */
} VialTracked;

GPtrArray *vial_conntrack_list(int ns_fd, GError **error);
/* Deletes the listed ones that are still there. Their next packet belongs to no connection and is reset. Any thread. */
gboolean vial_conntrack_delete(int ns_fd, const GPtrArray *tracked, GError **error);

typedef void (*VialConnectionFunc)(const VialConnection *connection, gpointer data);
/* A source on the main loop that reports every connection that ends; remove it with g_source_remove(). 0 on failure. */
guint vial_conntrack_watch(int ns_fd, VialConnectionFunc ended, gpointer data, GError **error);
