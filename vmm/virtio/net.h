/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio-net on a TAP descriptor. The TAP belongs to the sandbox's own network namespace and to viald; the device only moves packets.
 * Without a descriptor the link is down: what is sent is swallowed.
 */
#pragma once

#include "device.h"

/* A full-size segment before the host splits it, and its header. */
#define VIAL_NET_MAX_PACKET (65536u + 64u)

struct vial_net {
	int tap_fd;
	uint8_t mac[6];
	uint64_t in_packets, in_bytes, out_packets, out_bytes, dropped;
	uint8_t packet[VIAL_NET_MAX_PACKET];
};

/* Takes the descriptor over (-1: none). The TAP was opened with IFF_TAP | IFF_NO_PI | IFF_VNET_HDR. */
int vial_net_init(struct vial_virtio *device, struct vial_net *net, const struct vial_memory *memory, int tap_fd, const uint8_t mac[6]);
/* Another TAP under the same device, for a fork. */
int vial_net_attach(struct vial_virtio *device, int tap_fd);
