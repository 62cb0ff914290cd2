/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network policy as data: parsed from the API's JSON, printed back, and asked for verdicts. It knows no kernel and no
 * sandbox; rules.c turns it into nftables, the resolver and the proxy ask it. Immutable once parsed, any thread.
 *
 * Precedence (docs/network.md has the table): mode disabled · sealed ranges · closed ranges unless an allowed address or
 * range lies in them · specific allow · specific deny · allow ALL_TRAFFIC · deny ALL_TRAFFIC · deny.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "net/address.h"

typedef enum {
	VIAL_NET_DISABLED,
	VIAL_NET_OPEN,
	VIAL_NET_FILTERED,
} VialNetMode;

/* Limits of one policy. */
#define VIAL_NET_MAX_ENTRIES 512 /* in each list */
#define VIAL_NET_MAX_ENTRY_BYTES 300
#define VIAL_NET_MAX_RATE_MBIT 100000
#define VIAL_NET_MAX_CONNECTIONS 65535
#define VIAL_NET_MAX_NAME_PORTS 16 /* different port ranges on names: each is a pair of kernel sets */

typedef enum {
	VIAL_NET_ENTRY_ALL,      /* ALL_TRAFFIC */
	VIAL_NET_ENTRY_RANGE,    /* an address or a CIDR */
	VIAL_NET_ENTRY_NAME,     /* example.com */
	VIAL_NET_ENTRY_WILDCARD, /* *.example.com: names below it, not itself */
} VialNetEntryKind;

typedef struct {
	VialNetEntryKind kind;
	char *text; /* as the owner wrote it; what verdicts name */
	VialRange range;
	char *name;                 /* normalised: lower case, punycode, no trailing dot, no "*." */
	guint16 port_from, port_to; /* 0-65535 when none was given */
} VialNetEntry;

/* Caps of one sandbox. 0 means the default, G_MAXUINT none. A policy has the first two. */
typedef struct {
	guint rate_mbit;       /* each direction */
	guint max_connections; /* at a time */
	guint connection_rate; /* new ones per second */
	guint packet_rate;     /* packets per second out of the guest, against floods of tiny ones */
	guint dns_rate;        /* questions per second */
} VialNetLimits;

typedef struct {
	VialNetMode mode;
	GPtrArray *allow; /* VialNetEntry */
	GPtrArray *deny;
	VialNetLimits limits; /* that the owner asked for; 0: not */
	gint ref_count;
} VialNetPolicy;

/*
 * {"mode":"disabled|open|filtered","allow_out":[...],"deny_out":[...],"limits":{"rate_mbit":n,"max_connections":n}}. NULL or
 * {} is disabled; lists without a mode mean filtered. Errors are VIAL_ERROR_INVALID and name the field and the entry.
 */
VialNetPolicy *vial_net_policy_parse(const json_t *json, GError **error);
VialNetPolicy *vial_net_policy_new_disabled(void);
VialNetPolicy *vial_net_policy_ref(const VialNetPolicy *policy);
void vial_net_policy_unref(VialNetPolicy *policy);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialNetPolicy, vial_net_policy_unref)

/* A new reference; what parse() takes. */
json_t *vial_net_policy_to_json(const VialNetPolicy *policy);

typedef enum {
	VIAL_NET_BY_MODE,
	VIAL_NET_BY_SCOPE, /* the address's nature */
	VIAL_NET_BY_RANGE, /* an address rule */
	VIAL_NET_BY_NAME,  /* a name rule */
	VIAL_NET_BY_BASELINE,
} VialNetDecider;

typedef struct {
	gboolean allowed;
	VialNetDecider by;
	/* The entry's text, or "mode:disabled", "sealed:<range>", "closed:<range>", "host", "resolver", "default". Borrowed from the policy
	 * or static. */
	const char *rule;
	/* One sentence, static. */
	const char *reason;
} VialNetVerdict;

/* Could this name be resolved at all? (Some port of it is allowed, or the baseline lets it through.) */
VialNetVerdict vial_net_policy_check_name(const VialNetPolicy *policy, const char *name);

/* May the guest connect to this name (normalised) at that port, supposing its address is an ordinary public one? */
VialNetVerdict vial_net_policy_check_name_port(const VialNetPolicy *policy, const char *name, guint16 port);

/*
 * May a connection to `address`:`port` pass? `name` is the one that TLS or HTTP named and that was answered with this
 * address to this sandbox, or NULL when there is none. `denied_name` is one that the client named without such an answer:
 * it can only harm. Port 0 (ICMP) matches entries without ports.
 */
VialNetVerdict vial_net_policy_check_connection(const VialNetPolicy *policy, const char *name, const char *denied_name, const VialAddress *address,
                                                guint16 port);

/*
 * Ports of other people's resolvers (DNS, DNS over TLS or QUIC): ours is the only one, so neither a name rule nor a
 * baseline opens them; an address rule does.
 */
gboolean vial_net_port_is_resolver(guint16 port);
/* Ports whose TCP connections the proxy checks when there are name rules. */
gboolean vial_net_port_is_inspected(guint16 port);

/* Does allow_out name exactly this address (not a range around it)? What the host's own addresses ask for. */
gboolean vial_net_policy_names_address(const VialNetPolicy *policy, const VialAddress *address, guint16 port);

typedef struct {
	guint16 from, to;
} VialNetPorts;

/* The different port ranges of the names in allow_out; each has its own set of pinned addresses in the kernel. */
guint vial_net_policy_name_ports(const VialNetPolicy *policy, VialNetPorts out[VIAL_NET_MAX_NAME_PORTS]);
/* Does an allowed name with exactly these ports cover this one? */
gboolean vial_net_policy_name_has_ports(const VialNetPolicy *policy, const char *name, VialNetPorts ports);

/* Is there an entry that needs names (domain or wildcard)? Then TCP 80 and 443 pass through the proxy. */
gboolean vial_net_policy_has_names(const VialNetPolicy *policy);
/* Does allow_out (or mode open) have ALL_TRAFFIC for this port? */
const char *vial_net_policy_baseline(const VialNetPolicy *policy, guint16 port);
