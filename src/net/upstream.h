/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the host's resolvers, on the main loop. Each has its own connected UDP socket (a fresh random port) and a
 * random id; a truncated answer is asked for again over TCP; silence moves on to the next resolver.
 */
#pragma once

#include <glib.h>

#include "net/dns.h"

#define VIAL_UPSTREAM_TRY_MS 1500
#define VIAL_UPSTREAM_TRIES 4
/* Questions under way for all sandboxes. */
#define VIAL_UPSTREAM_MAX 2048

typedef struct VialUpstream VialUpstream;
typedef struct VialUpstreamQuestion VialUpstreamQuestion;

/* `resolvers` as in VialNetConfig; NULL: /etc/resolv.conf, read again when it changes. */
VialUpstream *vial_upstream_new(const char *const *resolvers, GError **error);
void vial_upstream_free(VialUpstream *upstream);

/* `answer` is NULL when no resolver answered; borrowed. The question is gone when this is called. */
typedef void (*VialUpstreamFunc)(const VialDnsAnswer *answer, gpointer data);
/* NULL when too many are under way. */
VialUpstreamQuestion *vial_upstream_ask(VialUpstream *upstream, const char *name, guint16 type, VialUpstreamFunc done, gpointer data);
void vial_upstream_cancel(VialUpstreamQuestion *question);
