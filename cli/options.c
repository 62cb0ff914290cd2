/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser. It knows no command; it fills what the tables point to and says what is wrong in one sentence. */
#include "cli/options.h"

#include <errno.h>
#include <string.h>

G_DEFINE_QUARK(vial - options - error, vial_options_error)

static gboolean fail(GError **error, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (error)
		*error = g_error_new_valist(VIAL_OPTIONS_ERROR, 0, format, args);
	va_end(args);
	return FALSE;
}

static const VialOption *find_long(const VialOption *const *tables, const char *name, gsize length)
{
	for (; *tables; tables++)
		for (const VialOption *option = *tables; option->name; option++)
			if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
				return option;
	return NULL;
}

static const VialOption *find_letter(const VialOption *const *tables, char letter)
{
	for (; *tables; tables++)
		for (const VialOption *option = *tables; option->name; option++)
			if (option->letter == letter)
				return option;
	return NULL;
}

/* A whole number with an optional unit letter; `units` pairs letters with factors. */
static gboolean parse_scaled(const char *text, const char *letters, const gint64 *factors, gint64 *out_value)
{
	char *end = NULL;
	errno = 0;
	if (!g_ascii_isdigit(text[0]))
		return FALSE;
	gint64 value = g_ascii_strtoll(text, &end, 10);
	if (errno)
		return FALSE;
	if (*end) {
		const char *unit = strchr(letters, g_ascii_tolower(*end));
		if (!unit)
			return FALSE;
		gint64 factor = factors[unit - letters];
		end++;
		if (*end || value > G_MAXINT64 / factor)
			return FALSE;
		value *= factor;
	}
	*out_value = value;
	return TRUE;
}

gboolean vial_options_parse_duration(const char *text, gint64 *out_seconds)
{
	static const gint64 factors[] = { 1, 60, 3600, 86400 };
	return parse_scaled(text, "smhd", factors, out_seconds);
}

gboolean vial_options_parse_memory(const char *text, gint64 *out_mib)
{
	static const gint64 factors[] = { 1, 1024, 1024 * 1024 };
	return parse_scaled(text, "mgt", factors, out_mib);
}

gboolean vial_options_split_pair(const char *text, char **out_key, const char **out_value)
{
	const char *equals = strchr(text, '=');
	if (!equals || equals == text)
		return FALSE;
	*out_key = g_strndup(text, equals - text);
	*out_value = equals + 1;
	return TRUE;
}

static gboolean store(const VialOption *option, char *value, GError **error)
{
	gint64 number = 0;
	switch (option->type) {
	case VIAL_OPTION_FLAG:
		*(gboolean *)option->target = TRUE;
		return TRUE;
	case VIAL_OPTION_STRING:
	case VIAL_OPTION_SECRET:
		g_free(*(char **)option->target);
		*(char **)option->target = g_strdup(value);
		if (option->type == VIAL_OPTION_SECRET)
			memset(value, '*', strlen(value));
		return TRUE;
	case VIAL_OPTION_LIST: {
		GPtrArray **list = option->target;
		if (!*list)
			*list = g_ptr_array_new_with_free_func(g_free);
		g_ptr_array_add(*list, g_strdup(value));
		return TRUE;
	}
	case VIAL_OPTION_NUMBER: {
		char *end = NULL;
		double real = g_ascii_strtod(value, &end);
		if (!g_ascii_isdigit(value[0]) || *end || real > G_MAXINT32)
			return fail(error, "--%s wants a number, not \"%s\"", option->name, value);
		*(double *)option->target = real;
		return TRUE;
	}
	case VIAL_OPTION_INT:
		if (!g_ascii_string_to_signed(value, 10, 0, G_MAXINT64, &number, NULL))
			return fail(error, "--%s wants a whole number, not \"%s\"", option->name, value);
		break;
	case VIAL_OPTION_DURATION:
		if (!vial_options_parse_duration(value, &number))
			return fail(error, "--%s wants a duration such as 90s, 15m, 2h or 1d, not \"%s\"", option->name, value);
		break;
	case VIAL_OPTION_MEMORY:
		if (!vial_options_parse_memory(value, &number))
			return fail(error, "--%s wants a size such as 512M or 2G, not \"%s\"", option->name, value);
		break;
	}
	*(gint64 *)option->target = number;
	return TRUE;
}

static gboolean fail_unknown(const VialOption *const *tables, const char *given, GError **error)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	for (; *tables; tables++)
		for (const VialOption *option = *tables; option->name; option++)
			g_ptr_array_add(names, (gpointer)option->name);
	g_ptr_array_add(names, NULL);
	g_autofree char *bare = g_strndup(given + 2, strcspn(given + 2, "="));
	const char *nearest = vial_options_nearest(bare, (const char *const *)names->pdata);
	if (nearest)
		return fail(error, "there is no option --%s; did you mean --%s?", bare, nearest);
	return fail(error, "there is no option --%s", bare);
}

/* "--name", "--name=value", "--name value". *inout_args is left on the last word used. */
static gboolean parse_long(const VialOption *const *tables, char ***inout_args, GError **error)
{
	char *word = **inout_args;
	char *equals = strchr(word, '=');
	gsize length = equals ? (gsize)(equals - word - 2) : strlen(word) - 2;
	const VialOption *option = find_long(tables, word + 2, length);
	if (!option)
		return fail_unknown(tables, word, error);
	if (option->type == VIAL_OPTION_FLAG) {
		if (equals)
			return fail(error, "--%s takes no value", option->name);
		return store(option, NULL, error);
	}
	if (equals)
		return store(option, equals + 1, error);
	if (!(*inout_args)[1])
		return fail(error, "--%s wants a value (%s)", option->name, option->value_name);
	(*inout_args)++;
	return store(option, **inout_args, error);
}

/* "-q", "-it", "-n4", "-n 4". */
static gboolean parse_short(const VialOption *const *tables, char ***inout_args, GError **error)
{
	for (char *letter = **inout_args + 1; *letter; letter++) {
		const VialOption *option = find_letter(tables, *letter);
		if (!option)
			return fail(error, "there is no option -%c", *letter);
		if (option->type == VIAL_OPTION_FLAG) {
			if (!store(option, NULL, error))
				return FALSE;
			continue;
		}
		if (letter[1])
			return store(option, letter + 1, error);
		if (!(*inout_args)[1])
			return fail(error, "-%c wants a value (%s)", *letter, option->value_name);
		(*inout_args)++;
		return store(option, **inout_args, error);
	}
	return TRUE;
}

gboolean vial_options_parse(const VialOption *const *tables, char **args, int verbatim_after, GPtrArray *out_positionals, GError **error)
{
	gboolean is_verbatim = FALSE;
	for (; *args; args++) {
		const char *word = *args;
		if (is_verbatim || word[0] != '-' || word[1] == '\0') { /* "-" alone is standard input, an argument */
			g_ptr_array_add(out_positionals, *args);
			if (verbatim_after > 0 && (int)out_positionals->len >= verbatim_after)
				is_verbatim = TRUE;
			continue;
		}
		if (strcmp(word, "--") == 0) {
			is_verbatim = TRUE;
			continue;
		}
		if (word[1] == '-' ? !parse_long(tables, &args, error) : !parse_short(tables, &args, error))
			return FALSE;
	}
	return TRUE;
}

gboolean vial_options_have(const VialOption *table, const char *name)
{
	const VialOption *const tables[] = { table, NULL };
	return table && find_long(tables, name, strlen(name)) != NULL;
}

/* Does the value of this option stand in the next word? Not in "--name=value" and "-n4". */
static gboolean wants_next(const VialOption *const *tables, const char *word)
{
	if (word[1] == '-') {
		const VialOption *option = find_long(tables, word + 2, strlen(word) - 2);
		return option && option->type != VIAL_OPTION_FLAG;
	}
	for (word++; *word; word++) {
		const VialOption *option = find_letter(tables, *word);
		if (option && option->type != VIAL_OPTION_FLAG)
			return word[1] == '\0';
	}
	return FALSE;
}

char **vial_options_first_positional(const VialOption *const *tables, char **args)
{
	for (; *args; args++) {
		const char *word = *args;
		if (word[0] != '-' || word[1] == '\0')
			return args;
		if (strcmp(word, "--") == 0)
			return args[1] ? args + 1 : NULL;
		if (wants_next(tables, word) && args[1])
			args++;
	}
	return NULL;
}

/* Edits between two words: insert, delete, replace, and swap of neighbours (the commonest slip of the fingers). */
static int distance(const char *a, const char *b)
{
	enum { LIMIT = 32 };
	int rows = (int)strlen(a), columns = (int)strlen(b);
	if (rows >= LIMIT || columns >= LIMIT)
		return LIMIT;
	int cell[LIMIT][LIMIT];
	for (int i = 0; i <= rows; i++)
		for (int j = 0; j <= columns; j++) {
			if (i == 0 || j == 0) {
				cell[i][j] = i + j;
				continue;
			}
			int cost = a[i - 1] == b[j - 1] ? 0 : 1;
			int best = MIN(MIN(cell[i - 1][j] + 1, cell[i][j - 1] + 1), cell[i - 1][j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = MIN(best, cell[i - 2][j - 2] + 1);
			cell[i][j] = best;
		}
	return cell[rows][columns];
}

const char *vial_options_nearest(const char *word, const char *const *names)
{
	const char *nearest = NULL;
	int limit = MAX(1, (int)strlen(word) / 2) + 1; /* half the letters wrong is no longer a typing mistake */
	for (; *names; names++) {
		if (strlen(word) >= 3 && g_str_has_prefix(*names, word))
			return *names;
		int edits = distance(word, *names);
		if (edits < limit) {
			limit = edits;
			nearest = *names;
		}
	}
	return nearest;
}
