/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes between a client's upgraded socket and a tunnel into a sandbox, both ways, without looking at them. The owner of
 * the operation passes its events on.
 */
#pragma once

#include "http/request.h"
#include "operations/operation.h"

/* After one side has ended, how long the other may take. */
#define VIAL_TUNNEL_LINGER_SECONDS 10

typedef struct VialTunnel VialTunnel;

/* Takes `upgraded`, borrows `operation`. `ended` is called once, from the loop; the owner then frees the tunnel. */
VialTunnel *vial_tunnel_new(VialUpgraded *upgraded, int fd, VialOperation *operation, void (*ended)(gpointer data), gpointer data);
void vial_tunnel_free(VialTunnel *tunnel); /* accepts NULL; closes the socket */

/* From the client, arrived before the tunnel was there. */
void vial_tunnel_client_data(VialTunnel *tunnel, const void *bytes, gsize size);
/* Events of the operation. */
void vial_tunnel_guest_data(VialTunnel *tunnel, const void *bytes, gsize size);
void vial_tunnel_guest_eof(VialTunnel *tunnel);
void vial_tunnel_guest_gone(VialTunnel *tunnel); /* the operation has ended */
void vial_tunnel_guest_writable(VialTunnel *tunnel);
