/* SPDX-License-Identifier: Apache-2.0 */
#include "service/demand.h"

#include <string.h>

#define REMEMBERED_MS (10 * 60 * 1000)
#define MAX_SIZES 16

struct VialDemand {
	GPtrArray *sizes; /* VialDemandedSize, the newest first */
};

static void size_free(gpointer data)
{
	VialDemandedSize *size = data;

	g_free(size->hash);
	g_free(size);
}

VialDemand *vial_demand_new(void)
{
	VialDemand *demand = g_new0(VialDemand, 1);

	demand->sizes = g_ptr_array_new_with_free_func(size_free);
	return demand;
}

void vial_demand_free(VialDemand *demand)
{
	g_ptr_array_unref(demand->sizes);
	g_free(demand);
}

/* Out of the list, and the caller's; a new one where there was none. */
static VialDemandedSize *take(VialDemand *demand, const char *hash, const VialLimits *limits)
{
	VialDemandedSize *size;

	for (guint i = 0; i < demand->sizes->len; i++) {
		size = demand->sizes->pdata[i];
		if (vial_limits_equal(&size->limits, limits) && strcmp(size->hash, hash) == 0)
			return g_ptr_array_steal_index(demand->sizes, i);
	}
	size = g_new0(VialDemandedSize, 1);
	size->hash = g_strdup(hash);
	size->limits = *limits;
	return size;
}

void vial_demand_note(VialDemand *demand, const char *hash, const VialLimits *limits, gint64 now_ms)
{
	VialDemandedSize *size = take(demand, hash, limits);

	if (now_ms - size->asked_ms > REMEMBERED_MS)
		size->wanted = 0;
	size->wanted++;
	size->asked_ms = now_ms;
	g_ptr_array_insert(demand->sizes, 0, size);
	if (demand->sizes->len > MAX_SIZES)
		g_ptr_array_set_size(demand->sizes, MAX_SIZES);
}

GPtrArray *vial_demand_sizes(VialDemand *demand, gint64 now_ms)
{
	while (demand->sizes->len > 0) {
		const VialDemandedSize *oldest = demand->sizes->pdata[demand->sizes->len - 1];

		if (now_ms - oldest->asked_ms <= REMEMBERED_MS)
			break;
		g_ptr_array_set_size(demand->sizes, (int)demand->sizes->len - 1);
	}
	return demand->sizes;
}
