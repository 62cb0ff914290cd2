/* SPDX-License-Identifier: Apache-2.0 */
/* What net.c needs of slot.c. */
#pragma once

#include "net/internal.h"

/* Resolver, proxy and the kernel's reports. */
gboolean vial_slot_open(VialNetSlot *slot, GError **error);
void vial_slot_close(VialNetSlot *slot);
/* Of the policy and the limits in force with it. */
void vial_slot_policy_hash(const VialNetSlot *slot, const VialNetPolicy *policy, char out[17]);
/* Puts the policy into the kernel. `prefix` (or NULL) is run before it in the same transaction and makes the tables anew. */
gboolean vial_slot_apply(VialNetSlot *slot, const VialNetPolicy *policy, const char *prefix, GError **error);
/* Ends the connections that the policy in force does not allow. */
gboolean vial_slot_sift(VialNetSlot *slot, GError **error);
/* The host's own addresses that the policy names; VialAddress, a new reference. */
GArray *vial_slot_wanted_host(VialNetSlot *slot, const VialNetPolicy *policy);
gboolean vial_slot_open_host(VialNetSlot *slot, GArray *addresses, gboolean is_open, GError **error);
