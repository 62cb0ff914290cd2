/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caps of one slot: what the daemon gives every sandbox, narrowed by what a policy asks for, and their way into the
 * kernel. In an effective set of limits 0 means "no cap". Main thread.
 */
#pragma once

#include "net/internal.h"
#include "net/rules.h"

/* `own` (or NULL) where it says something, else `fallback`, which is effective; so is the result. */
VialNetLimits vial_caps_resolve(const VialNetLimits *own, const VialNetLimits *fallback);
/* A policy can only take away: its limits where they are below `base`. */
VialNetLimits vial_caps_narrow(const VialNetLimits *asked, const VialNetLimits *base);
VialRuleCaps vial_caps_rules(const VialNetLimits *limits);
guint64 vial_caps_bytes_per_second(const VialNetLimits *limits);

/*
 * Puts them in force on a living slot. Connections go on; the kernel counts anew when the connection cap changes, so those
 * that are open then are not counted against it.
 */
gboolean vial_slot_set_limits(VialNetSlot *slot, VialNetLimits wanted, GError **error);
