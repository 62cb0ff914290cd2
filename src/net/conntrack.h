/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's connections as its kernel tracks them: listed, deleted one by one, and reported when they end (with their
 * byte counts). Main thread.
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

/* Keep this connection? */
typedef gboolean (*VialConnectionKeepFunc)(const VialConnection *connection, gpointer data);
/* Deletes those that `keep` refuses. Their next packet belongs to no connection and is reset. *out_cut may be NULL. */
gboolean vial_conntrack_sift(int ns_fd, VialConnectionKeepFunc keep, gpointer data, guint *out_cut, GError **error);

typedef void (*VialConnectionFunc)(const VialConnection *connection, gpointer data);
/* A source on the main loop that reports every connection that ends; remove it with g_source_remove(). 0 on failure. */
guint vial_conntrack_watch(int ns_fd, VialConnectionFunc ended, gpointer data, GError **error);
