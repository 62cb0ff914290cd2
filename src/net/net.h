/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of sandboxes, enforced outside the guest. docs/network.md explains the shape; in short:
 *
 *   guest namespace            gate namespace                           the host (viald's namespace)
 *   eth0 192.0.0.2 ──veth── gate0 192.0.0.1 · rules · up0 ──veth── vl<slot> · rules · masquerade ── outside
 *   runsc lives here           our resolver and proxy listen here
 *
 * A *slot* is such a pair of namespaces. All guests see the same addresses; only the names and the link to the host differ.
 * Slots are prepared ahead on worker threads, so acquiring one and giving it a policy costs about a millisecond.
 *
 * Legal order: vial_net_new() → for each sandbox of the journal vial_net_slot_adopt() → vial_net_start() (sweeps what
 * nobody adopted, starts preparing) → acquire / set_policy / release → vial_net_free() (leaves every held slot and its
 * rules in the kernel, so that sandboxes outlive viald).
 *
 * Main thread only. Nothing here blocks on the network or on another process. What a slot needs of the kernel while it is in use is done on
 * VIAL_LANE_NET; acquire makes netlink calls when no slot is prepared.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "net/policy.h"

typedef struct VialNet VialNet;
typedef struct VialNetSlot VialNetSlot;

/* What the guest sees, the same in every sandbox. The image's /etc/resolv.conf names VIAL_NET_GATEWAY_V4. */
#define VIAL_NET_GUEST_V4 "192.0.0.2"
#define VIAL_NET_GATEWAY_V4 "192.0.0.1"
#define VIAL_NET_PREFIX_V4 30
#define VIAL_NET_GUEST_V6 "fd76:6961:6c00::2"
#define VIAL_NET_GATEWAY_V6 "fd76:6961:6c00::1"
#define VIAL_NET_PREFIX_V6 64
#define VIAL_NET_GUEST_MAC "02:76:69:61:6c:02"
#define VIAL_NET_GATEWAY_MAC "02:76:69:61:6c:01"
#define VIAL_NET_GUEST_INTERFACE "eth0"
#define VIAL_NET_MTU 1500

/* Of VialNetLimits (policy.h). */
#define VIAL_NET_DEFAULT_RATE_MBIT 1000
#define VIAL_NET_DEFAULT_MAX_CONNECTIONS 512
#define VIAL_NET_DEFAULT_CONNECTION_RATE 200
#define VIAL_NET_DEFAULT_PACKET_RATE 200000
#define VIAL_NET_DEFAULT_DNS_RATE 200

typedef struct {
	/* The data directory's path: its hash tags all that we make, so that two daemons never sweep each other's slots. */
	const char *data_dir;
	/* Free slots kept ready. 0: the default (8). */
	guint prepared_slots;
	/* Most slots at a time, free ones included. 0: the default (4096). */
	guint max_slots;
	/* NULL-terminated "address" or "address#port" of the resolvers to ask; NULL: those of /etc/resolv.conf. */
	const char *const *resolvers;
	/* Caps of every slot that is acquired without its own; a policy can lower them. 0: the defaults above. */
	VialNetLimits limits;
	/* viald's own TCP ports, never reachable from a sandbox even if a policy names the host's address. 0-terminated. */
	const guint16 *sealed_ports;
} VialNetConfig;

/* Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN). Puts the host's own rules in place before it returns. */
VialNet *vial_net_new(const VialNetConfig *config, GError **error);
/* Once, after all adoptions: removes the slots of a dead predecessor that were not adopted, if it may, and starts preparing ahead. */
void vial_net_start(VialNet *net, gboolean may_sweep);
/* Before vial_net_free(): acquire fails from now on, what is prepared is removed, what is held stays and can still be released. */
void vial_net_close(VialNet *net);
/* Held slots stay in the kernel with their rules; free ones are removed. Accepts NULL. */
void vial_net_free(VialNet *net);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialNet, vial_net_free)

/*
 * A slot that nobody has used before, with `policy` in force (NULL: disabled) before this returns. Takes a prepared slot
 * (about a millisecond) or, when there is none, makes one on the spot (about ten). `label` (the sandbox id) is for logs.
 * A restore, a wake and a fork take a fresh slot too: connections the guest's memory remembers are unknown to it and are
 * reset. Borrowed by the caller until vial_net_slot_release().
 */
VialNetSlot *vial_net_slot_acquire(VialNet *net, const char *label, const VialNetPolicy *policy, const VialNetLimits *limits, GError **error);
/*
 * After a restart of viald: takes back the slot of that name with the policy it should have. Connections that go through
 * the kernel only (address rules) go on; those through the proxy ended with the old viald. If the rules in the kernel are
 * not this policy's, they are replaced. VIAL_ERROR_NOT_FOUND when the namespaces are gone.
 */
VialNetSlot *vial_net_slot_adopt(VialNet *net, const char *name, const char *label, const VialNetPolicy *policy, const VialNetLimits *limits,
                                 GError **error);
/*
 * For a guest that sleeps and comes back with its memory. Its connections go on, as the kernel and the proxy have kept them, if its peers see nothing
 * of what is not in that memory: not what the old guest does after it was saved, and no answer of a kernel that has its addresses and does not know
 * its connections. So nothing passes the gate from before it is saved until it is restored: shut, renew for the next host process, reopen. Each makes
 * calls of the kernel's that take a millisecond or two.
 */
gboolean vial_net_slot_shut(VialNetSlot *slot, GError **error);
gboolean vial_net_slot_renew(VialNetSlot *slot, const char *label, GError **error);
gboolean vial_net_slot_reopen(VialNetSlot *slot, GError **error);
/* A descriptor of the slot's gate for vial_net_has_connections(), the caller's; -1 if it cannot be had. */
int vial_net_slot_gate(const VialNetSlot *slot);
/* Has the guest TCP connections to the outside, or had it until just now? Walks the connections of the whole host. Any thread. */
gboolean vial_net_has_connections(int gate_fd);
/* Removes it, in the background. The sandbox's processes should be gone. Accepts NULL. */
void vial_net_slot_release(VialNetSlot *slot);

/* Stable, unique on this host; keep it in the journal for adopt(). */
const char *vial_net_slot_name(const VialNetSlot *slot);
/* A file for setns(2): the namespace to start runsc in. */
const char *vial_net_slot_netns_path(const VialNetSlot *slot);
/*
 * For a microVM: a new TAP (IFF_TAP | IFF_NO_PI | IFF_VNET_HDR) in the gate that takes the veth's place; the guest uses
 * the same addresses over it. The fd is the caller's. -1 and an error on failure.
 */
int vial_net_slot_open_tap(VialNetSlot *slot, GError **error);

/* `error` is borrowed; NULL: it is so. */
typedef void (*VialNetDone)(const GError *error, gpointer data);
/*
 * Replaces the whole policy in one kernel transaction, then ends the connections that it no longer allows; those still allowed go on. Its limits are
 * in force before it is. `done`, from the loop, when all that is so; on error the old policy stays in force. Changes of one slot keep their order.
 */
void vial_net_slot_set_policy(VialNetSlot *slot, const VialNetPolicy *policy, VialNetDone done, gpointer data);
/* It is in force, and nothing else is on its way. Limits do not matter where nothing gets through. */
gboolean vial_net_slot_has_policy(const VialNetSlot *slot, const VialNetPolicy *policy);
/* The one in force: a change that is under way does not show yet. */
const VialNetPolicy *vial_net_slot_policy(const VialNetSlot *slot);

/*
 * {"verdict":"allow|deny","rule":"...","reason":"..."} for a host (name or address) and a port, without connecting or
 * resolving. VIAL_ERROR_INVALID when host is neither. A new reference.
 */
json_t *vial_net_slot_check(VialNetSlot *slot, const char *host, guint16 port, GError **error);

/*
 * The newest events with seq > after, oldest first, at most `limit`. A new reference to
 * {"events":[{"seq","time","kind":"connection|dns|refused","protocol":"tcp|udp|icmp|dns","name"?,"address"?,"port"?,
 * "bytes_in"?,"bytes_out"?,"verdict":"allow|deny","rule","reason"?,"closed_at"?}],"next":<seq>,"lost":<events that fell out>}
 */
json_t *vial_net_slot_events(VialNetSlot *slot, guint64 after, guint limit);
/* How much was refused so far, and the number of the last event: cheap, for whoever looks before and after something. */
typedef struct {
	guint64 refused;
	guint64 last_event;
} VialNetMark;
void vial_net_slot_mark(const VialNetSlot *slot, VialNetMark *out);
/*
 * Up to where it is on record. The kernel tells of a refused connection some 30 ms later, which may be after the operation that wanted it has ended:
 * the next one tells it then, and nothing is lost.
 */
void vial_net_slot_untold(const VialNetSlot *slot, VialNetMark *out);
void vial_net_slot_told(VialNetSlot *slot, const VialNetMark *mark);

typedef struct {
	guint64 connections_allowed;
	guint64 connections_denied;
	guint64 dns_allowed;
	guint64 dns_denied;
	guint64 bytes_in; /* towards the guest */
	guint64 bytes_out;
	guint proxied; /* open now, through the proxy */
} VialNetCounters;

void vial_net_slot_counters(VialNetSlot *slot, VialNetCounters *out);

typedef struct {
	guint prepared; /* free and ready */
	guint preparing;
	guint held;
	guint removing;
	VialNetCounters total; /* of all slots, those released included */
} VialNetStats;

void vial_net_stats(VialNet *net, VialNetStats *out);
