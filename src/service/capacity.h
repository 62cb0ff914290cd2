/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host can give. A size that it can never give is refused with the reason (INVALID). How much memory all sandboxes together may be promised
 * is a setting, memory_overcommit_percent: by default there is no such limit, because most use little of what they may use; what exceeds one is a
 * passing shortage (UNAVAILABLE). Projects have quotas of their own: quota.h.
 */
#pragma once

#include "service/sandbox.h"

/* Whether this host can give one sandbox so much, when nobody else is there. */
gboolean vial_capacity_possible(VialApp *app, const VialLimits *limits, GError **error);
/* Whether there is room for `count` more that are like this one and awake. It is in the registry: being made, it is one of them. */
gboolean vial_capacity_admit(VialSandbox *sandbox, guint count, GError **error);
