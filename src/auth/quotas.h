/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a project may have at most, or a key of it: as data. Whether there is room is service/quota.c's business. Immutable once read; main thread.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "util/tier.h"

typedef enum { VIAL_NETWORK_DISABLED = 1 << 0, VIAL_NETWORK_FILTERED = 1 << 1, VIAL_NETWORK_OPEN = 1 << 2 } VialNetworkModes;

#define VIAL_NO_QUOTA (-1)

/* Numbers are VIAL_NO_QUOTA where there is no limit. 0 is one: nothing. */
typedef struct {
	gint64 max_sandboxes;
	double max_vcpu;
	gint64 max_memory_mb;
	gint64 max_disk_mb;
	gint64 max_snapshot_bytes;
	gint64 max_templates;
	gint64 max_create_per_hour;
	gint64 max_concurrent_runs;
	gint64 max_ttl_seconds;
	unsigned network_modes; /* VialNetworkModes; 0: all */
	json_t *tiers;          /* names as "2x4"; NULL: all */
} VialQuotas;

VialQuotas *vial_quotas_new(void); /* without limits */
VialQuotas *vial_quotas_copy(const VialQuotas *quotas);
void vial_quotas_free(VialQuotas *quotas); /* accepts NULL */
/*
 * Sets the fields that are there; null takes a limit away. With `is_strict` a field that is no quota is an error: whoever writes one that does not
 * exist believes that something is limited. FALSE with an error that names the field, and nothing is set.
 */
gboolean vial_quotas_read(VialQuotas *quotas, const json_t *json, gboolean is_strict, GError **error);
/* Only the limits there are. */
json_t *vial_quotas_json(const VialQuotas *quotas);

/* Whether every limit of `outer` is one of `inner` too, and no higher; else *out_name is the one that is not. Both may be NULL. */
gboolean vial_quotas_are_within(const VialQuotas *inner, const VialQuotas *outer, const char **out_name);

/* Accept NULL: no limits. */
gboolean vial_quotas_allow_mode(const VialQuotas *quotas, const char *mode);
/* Whether a sandbox of this size fits into one of the tiers. */
gboolean vial_quotas_allow_size(const VialQuotas *quotas, double cpu, gint64 memory_mb);
