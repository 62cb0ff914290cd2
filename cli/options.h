/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command-line options as data: the same tables drive parsing, help, the man page and shell completion (which is why this
 * is not GOption). Targets are the static variables of the command that owns the table.
 */
#pragma once

#include <glib.h>

#define VIAL_OPTIONS_ERROR (vial_options_error_quark())
GQuark vial_options_error_quark(void);

typedef enum {
	VIAL_OPTION_FLAG,     /* gboolean */
	VIAL_OPTION_STRING,   /* char *, the last one wins */
	VIAL_OPTION_SECRET,   /* char *; blotted out of the process's argument list, where everybody's `ps` reads it */
	VIAL_OPTION_INT,      /* gint64, not negative */
	VIAL_OPTION_NUMBER,   /* double, not negative */
	VIAL_OPTION_LIST,     /* GPtrArray *, of char *, in order; created when first used */
	VIAL_OPTION_DURATION, /* gint64 seconds: 90, 90s, 15m, 2h, 1d */
	VIAL_OPTION_MEMORY,   /* gint64 MiB: 512, 512M, 2G */
} VialOptionType;

typedef struct {
	char letter;      /* 0: only the long form */
	const char *name; /* NULL ends a table */
	VialOptionType type;
	void *target;
	const char *value_name; /* as shown in help */
	const char *help;
	/* For completion: words separated by blanks, or @sandbox, @template, @snapshot, @agent, @project, @key,
	 * @quota, @file, @directory, @command. */
	const char *values;
} VialOption;

/*
 * Sorts `args` (NULL-terminated, borrowed) into options, stored through their targets, and `out_positionals` (borrowed strings,
 * appended). `tables` is NULL-terminated. "--" ends the options; so does the `verbatim_after`-th positional, unless 0.
 */
gboolean vial_options_parse(const VialOption *const *tables, char **args, int verbatim_after, GPtrArray *out_positionals, GError **error);

/* Has a table (NULL: none) an option of this name? */
gboolean vial_options_have(const VialOption *table, const char *name);

/* The first of `args` that is neither an option nor the value of one; NULL: there is none. Stores nothing. */
char **vial_options_first_positional(const VialOption *const *tables, char **args);

/* The name in `names` (NULL-terminated) that the user probably meant, or NULL. */
const char *vial_options_nearest(const char *word, const char *const *names);

gboolean vial_options_parse_duration(const char *text, gint64 *out_seconds);
gboolean vial_options_parse_memory(const char *text, gint64 *out_mib);
/* "K=V" into its halves; FALSE without a K. */
gboolean vial_options_split_pair(const char *text, char **out_key, const char **out_value);
