/* SPDX-License-Identifier: Apache-2.0 */
/* What net.c needs of slot.c. */
#pragma once

#include "net/internal.h"

/* Resolver, proxy and the kernel's reports. */
gboolean vial_slot_open(VialNetSlot *slot, GError **error);
void vial_slot_close(VialNetSlot *slot);
/* Of the policy and the limits in force with it. */
void vial_slot_policy_hash(const VialNetLimits *limits, const VialNetPolicy *policy, char out[17]);
/* The commands that put it in the place of the one with `old_hash` (NULL: none), with the addresses that were answered before. */
char *vial_slot_policy_rules(VialNetSlot *slot, const VialNetPolicy *policy, const char *hash, const char *old_hash);
/* The commands that close and then open the host's wall to it for these addresses of the host's own; NULL for none. Either may be NULL. */
char *vial_slot_host_rules(VialNetSlot *slot, const GArray *closing, const GArray *opening);
/* Puts the policy into the kernel. `prefix` (or NULL) is run before it in the same transaction and makes the tables anew. */
gboolean vial_slot_apply(VialNetSlot *slot, const VialNetPolicy *policy, const char *prefix, GError **error);
/* Ends the connections that the policy in force does not allow. */
gboolean vial_slot_prune_connections(VialNetSlot *slot, GError **error);
/* Ends those of the proxy, and leaves of `tracked` (VialTracked) the ones that the kernel has to end. */
void vial_slot_select_cut(VialNetSlot *slot, GPtrArray *tracked);
/* The host's own addresses that the policy names; VialAddress, a new reference. */
GArray *vial_slot_wanted_host(VialNetSlot *slot, const VialNetPolicy *policy);

/* net.c: removes it, in the background. */
void vial_slot_discard(VialNetSlot *slot);
