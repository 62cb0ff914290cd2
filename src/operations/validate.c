/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/validate.h"

#include <string.h>

#include "operations/limits.h"
#include "util/error.h"
#include "util/tier.h"

gboolean vial_check_text(const char *field, const char *text, gsize max_bytes, GError **error)
{
	if (text && !*text)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must not be empty", field);
	if (text && strlen(text) > max_bytes)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" is too long: at most %" G_GSIZE_FORMAT " bytes", field, max_bytes);
	return TRUE;
}

gboolean vial_check_label(const char *field, const char *text, gsize max_bytes, GError **error)
{
	for (const char *c = text; c && *c; c++)
		if (g_ascii_iscntrl(*c))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must not have control characters in it", field);
	return vial_check_text(field, text, max_bytes, error);
}

gboolean vial_check_required(const char *field, const char *text, gsize max_bytes, GError **error)
{
	if (!text)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" is required", field);
	return vial_check_text(field, text, max_bytes, error);
}

gboolean vial_check_path(const char *field, const char *path, GError **error)
{
	return vial_check_required(field, path, VIAL_PATH_MAX_BYTES, error);
}

gboolean vial_check_user(const char *user, GError **error)
{
	return vial_check_text("user", user, VIAL_USER_MAX_BYTES, error);
}

gboolean vial_check_int(const char *field, gint64 value, gint64 min, gint64 max, GError **error)
{
	if (value == VIAL_UNSAID || (value >= min && value <= max))
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, field, min, max);
}

gboolean vial_check_required_int(const char *field, gint64 value, gint64 min, gint64 max, GError **error)
{
	if (value == VIAL_UNSAID)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" is required", field);
	return vial_check_int(field, value, min, max, error);
}

gboolean vial_check_real(const char *field, double value, double min, double max, GError **error)
{
	if (value == (double)VIAL_UNSAID || (value >= min && value <= max))
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be between %g and %g", field, min, max);
}

gboolean vial_check_size(const char *tier, double *cpu, gint64 *memory_mb, GError **error)
{
	const VialTier *found = tier ? vial_tier_find(tier) : NULL;

	if (tier && !found)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "field \"tier\" must be 2 or 4 processors and 2, 4, 8 or 16 GB, as 2x4; other sizes are "
		                 "asked for with cpu and memory_mb");
	if (found && *cpu != (double)VIAL_UNSAID && *cpu != found->cpu)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"cpu\" must be left out or be %g, as the tier %s has", found->cpu, tier);
	if (found && *memory_mb != VIAL_UNSAID && *memory_mb != found->memory_mb)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"memory_mb\" must be left out or be %" G_GINT64_FORMAT ", as the tier %s has",
		                 found->memory_mb, tier);
	if (found) {
		*cpu = found->cpu;
		*memory_mb = found->memory_mb;
	}
	return vial_check_real("cpu", *cpu, VIAL_CPU_MIN, VIAL_CPU_MAX, error) &&
	       vial_check_int("memory_mb", *memory_mb, VIAL_MEMORY_MIN_MB, VIAL_MEMORY_MAX_MB, error);
}

gboolean vial_check_choice(const char *field, const char *text, const char *const *choices, int *out, GError **error)
{
	g_autofree char *list = NULL;

	*out = -1;
	for (int i = 0; text && choices[i]; i++)
		if (strcmp(text, choices[i]) == 0)
			*out = i;
	if (!text || *out >= 0)
		return TRUE;
	list = g_strjoinv(", ", (char **)choices);
	return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be one of: %s", field, list);
}

static gboolean check_map(const char *field, json_t *map, gsize max_pairs, gsize max_name_bytes, gsize max_value_bytes, GError **error)
{
	const char *name;
	json_t *value;

	if (json_object_size(map) > max_pairs)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" has too many entries: at most %" G_GSIZE_FORMAT, field, max_pairs);
	json_object_foreach (map, name, value) {
		gsize length = strlen(name);

		if (length == 0 || length > max_name_bytes)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\": a name must have 1 to %" G_GSIZE_FORMAT " bytes", field,
			                 max_name_bytes);
		if (!json_is_string(value))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s.%s\" must be a string", field, name);
		if (json_string_length(value) > max_value_bytes)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s.%s\" is too long: at most %" G_GSIZE_FORMAT " bytes", field, name,
			                 max_value_bytes);
	}
	return TRUE;
}

gboolean vial_check_metadata(json_t *metadata, GError **error)
{
	return check_map("metadata", metadata, VIAL_METADATA_MAX_PAIRS, VIAL_METADATA_NAME_MAX_BYTES, VIAL_METADATA_VALUE_MAX_BYTES, error);
}

gboolean vial_check_env(json_t *env, GError **error)
{
	const char *name;
	json_t *value;

	if (!check_map("env", env, VIAL_ENV_MAX_PAIRS, VIAL_ENV_NAME_MAX_BYTES, VIAL_ENV_VALUE_MAX_BYTES, error))
		return FALSE;
	json_object_foreach (env, name, value) {
		if (strchr(name, '='))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"env\": \"%s\" is no name of an environment variable: it has a =", name);
		if (strlen(json_string_value(value)) != json_string_length(value))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"env.%s\" has a NUL in it, which no environment variable can have", name);
	}
	return TRUE;
}

gboolean vial_check_argv(json_t *argv, GError **error)
{
	json_t *word;
	gsize i;

	if (!json_is_array(argv))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"argv\" must be an array of strings");
	if (json_array_size(argv) == 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"argv\" must not be empty");
	if (json_array_size(argv) > VIAL_ARGV_MAX_WORDS)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"argv\" has too many elements: at most %d", VIAL_ARGV_MAX_WORDS);
	json_array_foreach (argv, i, word) {
		if (!json_is_string(word))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"argv[%" G_GSIZE_FORMAT "]\" must be a string", i);
		if (json_string_length(word) > VIAL_COMMAND_MAX_BYTES)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"argv[%" G_GSIZE_FORMAT "]\" is too long: at most %d bytes", i,
			                 VIAL_COMMAND_MAX_BYTES);
	}
	return TRUE;
}
