/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/net/ know of each other. Nobody else includes this. */
#pragma once

#include "net/answers.h"
#include "net/events.h"
#include "net/net.h"
#include "net/nft.h"
#include "net/upstream.h"
#include "net/wiring.h"

typedef struct VialResolver VialResolver;
typedef struct VialProxy VialProxy;

struct VialNet {
	char *tag;
	char *alias; /* of our interfaces on the host: the tag, and the data directory for people */
	VialNetLimits limits;
	guint prepared_wanted;
	guint max_slots;
	VialUpstream *upstream;
	VialNft *host_nft;
	VialHostFacts host;
	gint64 host_addresses_ms; /* when they were read */
	GQueue prepared;          /* VialNetSlot, free and ready */
	GHashTable *held;         /* VialNetSlot */
	guint preparing;
	guint removing;
	guint next_number;
	gboolean is_started;
	guint retry_timer;
	VialNetCounters past; /* of released slots */
	guint ref_count;      /* the owner and the jobs under way */
	gboolean is_closed;
};

struct VialNetSlot {
	VialNet *net;
	VialWiring wiring;
	char *netns_path;
	char *label;
	int host_index; /* of the host's end of the link */
	int gate_fd;
	VialNft *nft;
	VialNetLimits base_limits; /* the most it may have; a policy narrows them */
	VialNetLimits limits;      /* in force */
	VialNetPolicy *policy;
	char policy_hash[17]; /* of the one in the kernel; "" for none */
	GArray *host_open;    /* VialAddress: host addresses opened to this slot */
	VialAnswers *answers;
	VialEvents *events;
	VialResolver *resolver;
	VialProxy *proxy;
	guint log_watch;
	guint conntrack_watch;
	VialNetCounters counters;
	VialNetMark told; /* of what was refused: up to where it is on record */
	/* change.c */
	GQueue changes; /* VialNetChange: the one under way, then those that wait */
	gboolean is_changing;
	gboolean is_released; /* discarded as soon as nothing is under way */
};

/* A limit of `rate` per second with a burst; refilled by the clock. */
typedef struct {
	double tokens;
	gint64 filled_ms;
} VialBucket;

gboolean vial_bucket_take(VialBucket *bucket, double rate, double burst);

/* The verdict on a connection as the kernel's rules and the proxy know it: host addresses included. */
VialNetVerdict vial_slot_judge(VialNetSlot *slot, const char *name, const char *claimed_name, const VialAddress *address, guint16 port);
/* May an answer with this address be given to the guest? */
gboolean vial_slot_may_answer(VialNetSlot *slot, const VialAddress *address, const char **out_rule);

/* src/net/resolver.c: our resolver in the slot's gate. */
VialResolver *vial_resolver_new(VialNetSlot *slot, GError **error);
void vial_resolver_free(VialResolver *resolver);

/* src/net/proxy.c: the transparent proxy in the slot's gate. */
VialProxy *vial_proxy_new(VialNetSlot *slot, GError **error);
/* Ends all its connections. */
void vial_proxy_free(VialProxy *proxy);
/* Ends the connections that the slot's policy does not allow any more. */
void vial_proxy_prune_connections(VialProxy *proxy);
/* Brings the byte counts of open connections in the event list up to date. */
void vial_proxy_progress(VialProxy *proxy);
guint vial_proxy_count(const VialProxy *proxy);

/* Slot-side service sockets: dual-stack, bound to the gate's inner interface. */
int vial_gate_socket(int gate_fd, int type, guint16 port, GError **error);
