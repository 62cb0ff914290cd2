/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors below FD_SETSIZE, kept for those who need one: libnftables waits with select(), and glibc ends the whole process over a descriptor that
 * does not fit into its set. Clients are let in by the thousand, so the low numbers are taken at start and handed out one by one. Any thread.
 */
#pragma once

#include <glib.h>

/* Calls `open_socket`, whose netlink socket gets a low descriptor. FALSE when there is none left, or it failed. */
gboolean vial_lowfd_open(gboolean (*open_socket)(gpointer data), void (*close_socket)(gpointer data), gpointer data);
/* After a socket that was opened so has been closed. */
void vial_lowfd_closed(void);
