/* SPDX-License-Identifier: Apache-2.0 */
#include "util/tier.h"

#include <string.h>

#define GB ((gint64)1024)

const VialTier vial_tiers[VIAL_N_TIERS] = {
	{ "2x2", 2, 2 * GB }, { "2x4", 2, 4 * GB }, { "2x8", 2, 8 * GB }, { "2x16", 2, 16 * GB },
	{ "4x2", 4, 2 * GB }, { "4x4", 4, 4 * GB }, { "4x8", 4, 8 * GB }, { "4x16", 4, 16 * GB },
};

const VialTier *vial_tier_find(const char *name)
{
	for (gsize i = 0; i < VIAL_N_TIERS; i++)
		if (strcmp(vial_tiers[i].name, name) == 0)
			return &vial_tiers[i];
	return NULL;
}

const VialTier *vial_tier_of(double cpu, gint64 memory_mb)
{
	for (gsize i = 0; i < VIAL_N_TIERS; i++)
		if (vial_tiers[i].cpu == cpu && vial_tiers[i].memory_mb == memory_mb)
			return &vial_tiers[i];
	return NULL;
}

gboolean vial_tier_parse(const char *name, double *out_cpu, gint64 *out_memory_mb)
{
	const VialTier *tier = vial_tier_find(name);

	if (!tier)
		return FALSE;
	*out_cpu = tier->cpu;
	*out_memory_mb = tier->memory_mb;
	return TRUE;
}
