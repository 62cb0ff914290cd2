/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/quota_options.h"

#include <string.h>

#include "cli/api.h"
#include "cli/output.h"

typedef enum { COUNT, REAL, MIB, BYTES, SECONDS, WORDS } Kind;

static const struct {
	const char *name;
	Kind kind;
} quotas[VIAL_QUOTA_COUNT] = {
	{ "max_sandboxes", COUNT },
	{ "max_vcpu", REAL },
	{ "max_memory_mb", MIB },
	{ "max_disk_mb", MIB },
	{ "max_snapshot_bytes", BYTES },
	{ "max_templates", COUNT },
	{ "max_create_per_hour", COUNT },
	{ "max_concurrent_runs", COUNT },
	{ "max_ttl_seconds", SECONDS },
	{ "network_modes", WORDS },
	{ "tiers", WORDS },
};

char *vial_quota_given[VIAL_QUOTA_COUNT];

const char *vial_quota_name(guint index)
{
	return quotas[index].name;
}

char *vial_quota_names(const char *suffix)
{
	GString *names = g_string_new(NULL);
	for (guint i = 0; i < VIAL_QUOTA_COUNT; i++)
		g_string_append_printf(names, "%s%s%s", i ? " " : "", quotas[i].name, suffix);
	return g_string_free(names, FALSE);
}

static int find(const char *name)
{
	for (int i = 0; i < VIAL_QUOTA_COUNT; i++)
		if (strcmp(quotas[i].name, name) == 0)
			return i;
	return -1;
}

static json_t *refuse(GError **error, const char *name, const char *wanted, const char *text)
{
	g_set_error(error, VIAL_OPTIONS_ERROR, 0, "%s wants %s, or none for no limit, not \"%s\"", name, wanted, text);
	return NULL;
}

static json_t *words(const char *name, const char *text, GError **error)
{
	g_auto(GStrv) parts = g_strsplit(text, ",", -1);
	g_autoptr(json_t) list = json_array();
	for (int i = 0; parts[i]; i++) {
		g_strstrip(parts[i]);
		if (!*parts[i])
			return refuse(error, name, "words separated by commas", text);
		json_array_append_new(list, json_string(parts[i]));
	}
	return json_array_size(list) > 0 ? g_steal_pointer(&list) : refuse(error, name, "words separated by commas", text);
}

static json_t *real(const char *name, const char *text, GError **error)
{
	char *end = NULL;
	double value = g_ascii_strtod(text, &end);
	if (!g_ascii_isdigit(text[0]) || *end || value > G_MAXINT32)
		return refuse(error, name, "a number", text);
	return json_real(value);
}

static gboolean parse_bytes(const char *text, gint64 *out)
{
	gint64 mib;
	if (g_ascii_string_to_signed(text, 10, 0, G_MAXINT64, out, NULL))
		return TRUE;
	if (!vial_options_parse_memory(text, &mib) || mib > G_MAXINT64 >> 20)
		return FALSE;
	*out = mib << 20;
	return TRUE;
}

json_t *vial_quota_value(const char *name, const char *text, GError **error)
{
	int index = find(name);
	gint64 number = 0;
	g_return_val_if_fail(index >= 0, NULL);
	if (strcmp(text, "none") == 0)
		return json_null();
	switch (quotas[index].kind) {
	case COUNT:
		return g_ascii_string_to_signed(text, 10, 0, G_MAXINT64, &number, NULL) ? json_integer(number)
		                                                                        : refuse(error, name, "a whole number", text);
	case REAL:
		return real(name, text, error);
	case MIB:
		return vial_options_parse_memory(text, &number) ? json_integer(number) : refuse(error, name, "megabytes, such as 65536 or 64G", text);
	case BYTES:
		return parse_bytes(text, &number) ? json_integer(number) : refuse(error, name, "bytes, such as 21474836480 or 20G", text);
	case SECONDS:
		return vial_options_parse_duration(text, &number) ? json_integer(number) : refuse(error, name, "seconds, such as 28800 or 8h", text);
	case WORDS:
		return words(name, text, error);
	}
	return NULL;
}

static gboolean fail_unknown(const char *name, GError **error)
{
	const char *names[VIAL_QUOTA_COUNT + 1] = { NULL };
	for (guint i = 0; i < VIAL_QUOTA_COUNT; i++)
		names[i] = quotas[i].name;
	const char *nearest = vial_options_nearest(name, names);
	g_autofree char *all = g_strjoinv(", ", (char **)names);
	if (nearest)
		g_set_error(error, VIAL_OPTIONS_ERROR, 0, "there is no quota \"%s\"; did you mean %s?", name, nearest);
	else
		g_set_error(error, VIAL_OPTIONS_ERROR, 0, "there is no quota \"%s\", only %s", name, all);
	return FALSE;
}

gboolean vial_quota_set_pair(json_t *object, const char *pair, GError **error)
{
	g_autofree char *name = NULL;
	const char *text = NULL;
	if (!vial_options_split_pair(pair, &name, &text)) {
		g_set_error(error, VIAL_OPTIONS_ERROR, 0, "say NAME=VALUE, such as max_sandboxes=50 or max_vcpu=none, not \"%s\"", pair);
		return FALSE;
	}
	g_strdelimit(name, "-", '_');
	if (find(name) < 0)
		return fail_unknown(name, error);
	json_t *value = vial_quota_value(name, text, error);
	return value && json_object_set_new(object, name, value) == 0;
}

json_t *vial_quota_from_options(GError **error)
{
	g_autoptr(json_t) object = json_object();
	for (guint i = 0; i < VIAL_QUOTA_COUNT; i++) {
		g_autofree char *option = g_strdelimit(g_strdup(quotas[i].name), "_", '-');
		json_t *value = vial_quota_given[i] ? vial_quota_value(quotas[i].name, vial_quota_given[i], error) : NULL;
		if (value)
			json_object_set_new(object, quotas[i].name, value);
		else if (vial_quota_given[i]) {
			g_prefix_error(error, "--%s: ", option);
			return NULL;
		}
	}
	return g_steal_pointer(&object);
}

char *vial_quota_text(const char *name, const json_t *value)
{
	int index = find(name);
	Kind kind = index >= 0 ? quotas[index].kind : COUNT;
	if (!value || json_is_null(value))
		return g_strdup("none");
	if (json_is_array(value)) {
		GString *list = g_string_new(NULL);
		for (gsize i = 0; i < json_array_size(value); i++) {
			const char *word = json_string_value(json_array_get(value, i));
			g_string_append_printf(list, "%s%s", i ? ", " : "", word ? word : "?");
		}
		return g_string_free(list, FALSE);
	}
	if (!json_is_number(value))
		return g_strdup("?");
	double number = json_number_value(value);
	if (kind == MIB && number < 1e12)
		return vial_output_bytes((gint64)number << 20);
	if (kind == BYTES)
		return vial_output_bytes((gint64)number);
	if (kind == SECONDS)
		return vial_output_duration((gint64)number);
	return g_strdup_printf("%.10g", number);
}
