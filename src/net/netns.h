/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named network namespaces, kept as files in /run/netns like those of ip(8), so that `ip netns exec` works on them. A
 * namespace belongs to a thread: whoever enters one leaves it before doing anything else. Any thread.
 */
#pragma once

#include <glib.h>

#define VIAL_NETNS_DIR "/run/netns"

/* Remembers the namespace viald runs in and prepares VIAL_NETNS_DIR. Before all others, once. */
gboolean vial_netns_init(GError **error);
/* An fd of viald's own namespace; not to be closed. */
int vial_netns_home(void);

/* A new namespace under that name; an fd of it, or -1. */
int vial_netns_create(const char *name, GError **error);
int vial_netns_open(const char *name, GError **error);
/* Unmounts and removes the name. The namespace ends when nothing is left in it. */
gboolean vial_netns_remove(const char *name, GError **error);

gboolean vial_netns_enter(int ns_fd, GError **error);
/* Back home. Going on in a sandbox's namespace would be worse than stopping: failure aborts. */
void vial_netns_leave(void);

/* socket(2) in that namespace; close-on-exec and non-blocking. */
int vial_netns_socket(int ns_fd, int domain, int type, int protocol, GError **error);
