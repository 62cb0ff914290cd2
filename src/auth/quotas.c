/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/quotas.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

#define MAX_COUNT 1000000000
#define MAX_BYTES ((gint64)1 << 53)
#define MAX_TTL_SECONDS 2147483647
#define MAX_VCPU 1000000.0

static const char *const mode_names[] = { "disabled", "filtered", "open" };

/* The whole numbers. */
static const struct {
	const char *name;
	gsize offset;
	gint64 max;
} numbers[] = {
	{ "max_sandboxes", G_STRUCT_OFFSET(VialQuotas, max_sandboxes), MAX_COUNT },
	{ "max_memory_mb", G_STRUCT_OFFSET(VialQuotas, max_memory_mb), MAX_BYTES },
	{ "max_disk_mb", G_STRUCT_OFFSET(VialQuotas, max_disk_mb), MAX_BYTES },
	{ "max_snapshot_bytes", G_STRUCT_OFFSET(VialQuotas, max_snapshot_bytes), MAX_BYTES },
	{ "max_templates", G_STRUCT_OFFSET(VialQuotas, max_templates), MAX_COUNT },
	{ "max_create_per_hour", G_STRUCT_OFFSET(VialQuotas, max_create_per_hour), MAX_COUNT },
	{ "max_concurrent_runs", G_STRUCT_OFFSET(VialQuotas, max_concurrent_runs), MAX_COUNT },
	{ "max_ttl_seconds", G_STRUCT_OFFSET(VialQuotas, max_ttl_seconds), MAX_TTL_SECONDS },
};

static const char *const other_names[] = { "max_vcpu", "network_modes", "tiers", NULL };

static gint64 *number_of(const VialQuotas *quotas, gsize i)
{
	return (gint64 *)(gpointer)((char *)quotas + numbers[i].offset);
}

VialQuotas *vial_quotas_new(void)
{
	VialQuotas *quotas = g_new0(VialQuotas, 1);

	for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++)
		*number_of(quotas, i) = VIAL_NO_QUOTA;
	quotas->max_vcpu = VIAL_NO_QUOTA;
	return quotas;
}

VialQuotas *vial_quotas_copy(const VialQuotas *quotas)
{
	VialQuotas *copy = g_memdup2(quotas, sizeof(*quotas));

	json_incref(copy->tiers);
	return copy;
}

void vial_quotas_free(VialQuotas *quotas)
{
	if (!quotas)
		return;
	json_decref(quotas->tiers);
	g_free(quotas);
}

static gboolean is_known(const char *name)
{
	for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++)
		if (strcmp(name, numbers[i].name) == 0)
			return TRUE;
	return g_strv_contains(other_names, name);
}

static gboolean check_names(const json_t *json, GError **error)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)json, name, value)
		if (!is_known(name))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"%.64s\" is no quota; GET …/quotas shows those there are", name);
	return TRUE;
}

static gboolean read_modes(VialQuotas *quotas, const json_t *list, GError **error)
{
	const json_t *item;
	unsigned modes = 0;
	gsize i;

	if (json_is_null(list)) {
		quotas->network_modes = 0;
		return TRUE;
	}
	if (!json_is_array(list) || json_array_size(list) == 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"network_modes\" must be a list of disabled, filtered and open, or null for all");
	json_array_foreach (list, i, item) {
		unsigned bit = 0;

		for (gsize m = 0; m < G_N_ELEMENTS(mode_names); m++)
			if (g_strcmp0(json_string_value(item), mode_names[m]) == 0)
				bit = 1u << m;
		if (!bit)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"network_modes[%" G_GSIZE_FORMAT "]\" must be disabled, filtered or open",
			                 i);
		modes |= bit;
	}
	quotas->network_modes = modes;
	return TRUE;
}

static gboolean read_tiers(VialQuotas *quotas, const json_t *list, GError **error)
{
	const json_t *item;
	gint64 memory_mb;
	double cpu;
	gsize i;

	if (!json_is_null(list)) {
		if (!json_is_array(list) || json_array_size(list) == 0)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"tiers\" must be a list of names as 2x4, or null for all");
		json_array_foreach (list, i, item)
			if (!json_is_string(item) || !vial_tier_parse(json_string_value(item), &cpu, &memory_mb))
				return vial_fail(error, VIAL_ERROR_INVALID,
				                 "field \"tiers[%" G_GSIZE_FORMAT "]\" must be 2 or 4 processors and 2, 4, 8 or 16 GB, as 2x4", i);
	}
	json_decref(quotas->tiers);
	quotas->tiers = json_is_null(list) ? NULL : json_deep_copy(list);
	return TRUE;
}

static gboolean read_numbers(VialQuotas *quotas, const json_t *json, GError **error)
{
	const json_t *vcpu = json_object_get(json, "max_vcpu");

	for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
		const json_t *value = json_object_get(json, numbers[i].name);

		if (json_is_null(value))
			*number_of(quotas, i) = VIAL_NO_QUOTA;
		else if (!vial_json_get_int(json, numbers[i].name, VIAL_JSON_OPTIONAL, 0, numbers[i].max, number_of(quotas, i), error))
			return FALSE;
	}
	if (json_is_null(vcpu))
		quotas->max_vcpu = VIAL_NO_QUOTA;
	return vial_json_get_double(json, "max_vcpu", VIAL_JSON_OPTIONAL, 0, MAX_VCPU, &quotas->max_vcpu, error);
}

gboolean vial_quotas_read(VialQuotas *quotas, const json_t *json, gboolean is_strict, GError **error)
{
	const json_t *modes = json_object_get(json, "network_modes"), *tiers = json_object_get(json, "tiers");
	VialQuotas *read = vial_quotas_copy(quotas);
	VialQuotas old;

	if ((is_strict && !check_names(json, error)) || !read_numbers(read, json, error) || (modes && !read_modes(read, modes, error)) ||
	    (tiers && !read_tiers(read, tiers, error))) {
		vial_quotas_free(read);
		return FALSE;
	}
	old = *quotas;
	*quotas = *read;
	*read = old;
	vial_quotas_free(read);
	return TRUE;
}

json_t *vial_quotas_json(const VialQuotas *quotas)
{
	json_t *json = json_object();

	for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++)
		if (*number_of(quotas, i) != VIAL_NO_QUOTA)
			json_object_set_new(json, numbers[i].name, json_integer(*number_of(quotas, i)));
	if (quotas->max_vcpu >= 0)
		json_object_set_new(json, "max_vcpu", json_real(quotas->max_vcpu));
	if (quotas->network_modes) {
		json_t *list = json_array();

		for (gsize m = 0; m < G_N_ELEMENTS(mode_names); m++)
			if (quotas->network_modes & (1u << m))
				json_array_append_new(list, json_string(mode_names[m]));
		json_object_set_new(json, "network_modes", list);
	}
	if (quotas->tiers)
		json_object_set(json, "tiers", quotas->tiers);
	return json;
}

gboolean vial_quotas_allow_mode(const VialQuotas *quotas, const char *mode)
{
	if (!quotas || !quotas->network_modes)
		return TRUE;
	for (gsize m = 0; m < G_N_ELEMENTS(mode_names); m++)
		if (strcmp(mode, mode_names[m]) == 0)
			return (quotas->network_modes & (1u << m)) != 0;
	return FALSE;
}

gboolean vial_quotas_allow_size(const VialQuotas *quotas, double cpu, gint64 memory_mb)
{
	const json_t *item;
	gsize i;

	if (!quotas || !quotas->tiers)
		return TRUE;
	json_array_foreach (quotas->tiers, i, item) {
		gint64 tier_memory_mb;
		double tier_cpu;

		if (vial_tier_parse(json_string_value(item), &tier_cpu, &tier_memory_mb) && cpu <= tier_cpu && memory_mb <= tier_memory_mb)
			return TRUE;
	}
	return FALSE;
}

/* Every tier of the one fits into a tier of the other. */
static gboolean tiers_are_within(const json_t *inner, const VialQuotas *outer)
{
	const json_t *item;
	gint64 memory_mb;
	double cpu;
	gsize i;

	if (!outer->tiers || !inner)
		return !outer->tiers;
	json_array_foreach (inner, i, item)
		if (!vial_tier_parse(json_string_value(item), &cpu, &memory_mb) || !vial_quotas_allow_size(outer, cpu, memory_mb))
			return FALSE;
	return TRUE;
}

gboolean vial_quotas_are_within(const VialQuotas *inner, const VialQuotas *outer, const char **out_name)
{
	static const VialQuotas none; /* its numbers are not looked at */

	*out_name = NULL;
	if (!outer)
		return TRUE;
	for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
		gint64 limit = *number_of(outer, i), own = inner ? *number_of(inner, i) : VIAL_NO_QUOTA;

		if (limit != VIAL_NO_QUOTA && (own == VIAL_NO_QUOTA || own > limit))
			*out_name = numbers[i].name;
	}
	if (outer->max_vcpu >= 0 && (!inner || inner->max_vcpu < 0 || inner->max_vcpu > outer->max_vcpu))
		*out_name = "max_vcpu";
	inner = inner ? inner : &none;
	if (outer->network_modes && (!inner->network_modes || (inner->network_modes & ~outer->network_modes)))
		*out_name = "network_modes";
	if (!tiers_are_within(inner->tiers, outer))
		*out_name = "tiers";
	return !*out_name;
}
