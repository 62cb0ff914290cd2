/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies as nftables text; nothing here talks to the kernel. The gate's table has a skeleton that never changes (source
 * addresses, state, refusal, the way to the proxy) and one chain `rules` that a policy fills. The whole is a deny-all in
 * which a policy can only make holes: an empty chain refuses everything.
 *
 * Connection marks: 1 admitted directly, 2 diverted to the proxy, 3 a question to our resolver. Packet mark 1: the
 * proxy's own outgoing connection.
 */
#pragma once

#include <glib.h>

#include "net/policy.h"

#define VIAL_GATE_INTERFACE "gate0"
#define VIAL_GATE_UPLINK "up0"
/* Prefix of the host's ends, followed by the slot's number in hexadecimal. */
#define VIAL_HOST_PREFIX "vl"

#define VIAL_MARK_DIRECT 1
#define VIAL_MARK_PROXIED 2
#define VIAL_MARK_RESOLVER 3
#define VIAL_MARK_OUTGOING 1

#define VIAL_PROXY_PORT 3129
#define VIAL_LOG_GROUP 7

typedef struct {
	guint max_connections; /* 0: no cap, here and below */
	guint connection_rate;
	guint packet_rate;
} VialRuleCaps;

/* The gate's tables, replacing what was there. */
void vial_rules_gate(GString *out, const VialRuleCaps *caps);
/* Only the caps again. */
void vial_rules_caps(GString *out, const VialRuleCaps *caps);

/*
 * The policy's chain in place of the former one; `host_addresses` are VialAddress. Pinned addresses are forgotten: add
 * them again with vial_rules_pin() in the same transaction. `hash` names the empty chain by which an adopting viald
 * recognises the policy; `old_hash` (or NULL) is the one to remove.
 */
void vial_rules_policy(GString *out, const VialNetPolicy *policy, const GArray *host_addresses, const char *hash, const char *old_hash);
/* Lets the guest reach `address` as `name` (normalised) for `seconds`, at the ports that the policy's name rules give. */
void vial_rules_pin(GString *out, const VialNetPolicy *policy, const char *name, const VialAddress *address, guint seconds);

/* The host's own table: what sandboxes may do to the host (nothing) and how their traffic leaves. */
void vial_rules_host(GString *out, const guint16 *sealed_ports);
/*
 * Opens or closes the host's own address to the slot behind that interface. By index: it is never given again while the
 * machine is up, so that what a crash leaves in the set can do no harm to a later slot of the same name.
 */
void vial_rules_host_open(GString *out, int interface_index, const VialAddress *address, gboolean is_open);
