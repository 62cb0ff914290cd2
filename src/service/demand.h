/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sizes are asked for besides the templates' own, so that the pool can have them ready: one is remembered for some minutes after it was last
 * asked for, and as many are wanted as were asked for in that time, up to what the pool keeps of a template. Knows nothing of guests; main thread.
 */
#pragma once

#include "service/template.h"

typedef struct VialDemand VialDemand;

typedef struct {
	char *hash; /* of the edition (edition.h) that it is restored from */
	VialLimits limits;
	guint wanted;
	gint64 asked_ms; /* monotonic */
} VialDemandedSize;

VialDemand *vial_demand_new(void);
void vial_demand_free(VialDemand *demand);
void vial_demand_note(VialDemand *demand, const char *hash, const VialLimits *limits, gint64 now_ms);
/* Those of the last minutes, the newest first; borrowed elements, in an array that is the demand's own. */
GPtrArray *vial_demand_sizes(VialDemand *demand, gint64 now_ms);
