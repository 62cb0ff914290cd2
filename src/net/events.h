/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last things a sandbox did or tried on the network. A ring: old events fall out, their number is kept. A refusal or a
 * question that repeats a recent one only raises its count, so that one loop cannot wash the rest away. Main thread.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "net/address.h"

#define VIAL_EVENTS_MAX 512

typedef enum {
	VIAL_EVENT_CONNECTION, /* admitted, directly or through the proxy */
	VIAL_EVENT_DNS,
	VIAL_EVENT_REFUSED,
} VialEventKind;

typedef struct {
	VialEventKind kind;
	const char *protocol; /* static: "tcp", "udp", "icmp", "dns" */
	const char *name;     /* copied; may be NULL */
	VialAddress address;  /* family 0: none */
	guint16 port;
	guint16 guest_port;
	gboolean is_allowed;
	const char *rule;   /* copied */
	const char *reason; /* static; may be NULL */
} VialEventFacts;

typedef struct VialEvents VialEvents;

VialEvents *vial_events_new(void);
void vial_events_free(VialEvents *events);

/* Its sequence number, from 1. */
guint64 vial_events_add(VialEvents *events, const VialEventFacts *facts);
/* Says how a connection ended. Unknown or fallen out: nothing happens. */
void vial_events_close(VialEvents *events, guint64 seq, guint64 bytes_in, guint64 bytes_out);
/* Progress of one that is open. */
void vial_events_update(VialEvents *events, guint64 seq, guint64 bytes_in, guint64 bytes_out);
/*
 * The same of the newest open connection with the protocol, address and ports of `facts`. The kernel tells of beginnings in batches, so the end of a
 * short one may be told first: it is kept until the beginning comes.
 */
void vial_events_end(VialEvents *events, const VialEventFacts *facts, guint64 bytes_in, guint64 bytes_out);

guint64 vial_events_last(const VialEvents *events); /* 0: none yet */
/* {"events":[…],"next":seq,"lost":N}; a new reference. */
json_t *vial_events_to_json(VialEvents *events, guint64 after, guint limit);
