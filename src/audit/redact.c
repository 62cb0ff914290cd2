/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/redact.h"

#include <fcntl.h>
#include <string.h>

#include "util/error.h"
#include "util/fd.h"

#define MAX_FILE_BYTES (1024 * 1024)
#define REPLACEMENT "[redacted]"
/* A shorter one would blot out half of every record. */
#define MIN_SECRET_BYTES 6
/* auth/keys.c makes them; those of older versions had all letters. */
#define OUR_KEYS "(?:vial_[A-Za-z0-9]{40}|(?:e2b_|pds_|pf_|sk-)[0-9a-f]{40})(?![A-Za-z0-9])"

/* What every one of them has: a text without it need not be looked at further, which is nearly every text. */
static const char *const marks[] = { "vial_", "e2b_", "pds_", "pf_", "sk-" };

struct VialRedactor {
	GRegex *regex;
	gboolean has_others; /* the operator's: then every text is looked at */
};

/* A line as a part of the one expression. */
static char *read_line(const char *path, const char *line, guint number, GError **error)
{
	gsize length = strlen(line);
	g_autoptr(GError) problem = NULL;
	g_autoptr(GRegex) regex = NULL;
	g_autofree char *pattern = NULL;

	if (length > 2 && line[0] == '/' && line[length - 1] == '/')
		pattern = g_strndup(line + 1, length - 2);
	else if (length < MIN_SECRET_BYTES)
		return vial_fail(error, VIAL_ERROR_INVALID, "%s, line %u: a secret of fewer than %d characters would be found everywhere", path,
		                 number, MIN_SECRET_BYTES),
		       NULL;
	else
		pattern = g_regex_escape_string(line, -1);
	regex = g_regex_new(pattern, 0, 0, &problem);
	if (!regex)
		return vial_fail(error, VIAL_ERROR_INVALID, "%s, line %u is no regular expression: %s", path, number, problem->message), NULL;
	if (g_regex_match(regex, "", 0, NULL))
		return vial_fail(error, VIAL_ERROR_INVALID, "%s, line %u matches everything", path, number), NULL;
	return g_steal_pointer(&pattern);
}

static gboolean read_file(const char *path, GString *out, GError **error)
{
	g_autofree char *text = vial_file_read_at(AT_FDCWD, path, MAX_FILE_BYTES, NULL, error);
	g_auto(GStrv) lines = text ? g_strsplit(text, "\n", -1) : NULL;

	if (!lines) {
		g_prefix_error(error, "audit_secrets_file: ");
		return FALSE;
	}
	for (guint i = 0; lines[i]; i++) {
		g_autofree char *pattern = NULL;

		g_strchomp(lines[i]);
		if (!lines[i][0] || lines[i][0] == '#')
			continue;
		if (!(pattern = read_line(path, lines[i], i + 1, error)))
			return FALSE;
		g_string_append_printf(out, "|(?:%s)", pattern);
	}
	explicit_bzero(text, strlen(text));
	return TRUE;
}

VialRedactor *vial_redactor_new(const char *path, GError **error)
{
	g_autoptr(GString) pattern = g_string_new(OUR_KEYS);
	VialRedactor *redactor;
	GRegex *regex;

	if (path && *path && !read_file(path, pattern, error))
		return NULL;
	regex = g_regex_new(pattern->str, G_REGEX_OPTIMIZE | G_REGEX_MULTILINE, 0, error);
	if (!regex)
		return NULL;
	redactor = g_new0(VialRedactor, 1);
	redactor->regex = regex;
	redactor->has_others = pattern->len > strlen(OUR_KEYS);
	return redactor;
}

void vial_redactor_free(VialRedactor *redactor)
{
	if (!redactor)
		return;
	g_regex_unref(redactor->regex);
	g_free(redactor);
}

static gboolean has_mark(const char *text, gsize size)
{
	for (gsize i = 0; i < G_N_ELEMENTS(marks); i++)
		if (memmem(text, size, marks[i], strlen(marks[i])))
			return TRUE;
	return FALSE;
}

/* A text too deep or too long for the expression is not let through unread. */
char *vial_redact_text(const VialRedactor *redactor, const char *text, gsize size)
{
	g_autoptr(GError) error = NULL;
	char *clean = NULL;

	if (size < MIN_SECRET_BYTES || (!redactor->has_others && !has_mark(text, size)))
		return NULL;
	if (!g_regex_match_full(redactor->regex, text, (gssize)size, 0, 0, NULL, &error) && !error)
		return NULL;
	if (!error)
		clean = g_regex_replace_literal(redactor->regex, text, (gssize)size, 0, REPLACEMENT, 0, &error);
	return clean ? clean : g_strdup(REPLACEMENT);
}

static void redact_string(const VialRedactor *redactor, json_t *text)
{
	g_autofree char *clean = vial_redact_text(redactor, json_string_value(text), json_string_length(text));

	if (clean)
		json_string_set(text, clean);
}

void vial_redact(const VialRedactor *redactor, json_t *json)
{
	const char *name;
	json_t *value;
	gsize i;

	if (json_is_string(json))
		redact_string(redactor, json);
	json_array_foreach (json, i, value)
		vial_redact(redactor, value);
	json_object_foreach (json, name, value)
		vial_redact(redactor, value);
}
