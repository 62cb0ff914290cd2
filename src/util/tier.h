/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes that have a name: 2 or 4 processors, and 2, 4, 8 or 16 GB of memory. A sandbox may have any other, too. */
#pragma once

#include <glib.h>

typedef struct {
	const char *name; /* as "2x4": 2 processors and 4 GB */
	double cpu;
	gint64 memory_mb;
} VialTier;

#define VIAL_N_TIERS 8
extern const VialTier vial_tiers[VIAL_N_TIERS];

/* By its name, or by its size; NULL: it is none. */
const VialTier *vial_tier_find(const char *name);
const VialTier *vial_tier_of(double cpu, gint64 memory_mb);
gboolean vial_tier_parse(const char *name, double *out_cpu, gint64 *out_memory_mb);
