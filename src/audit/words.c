/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/words.h"

#include <jansson.h>
#include <string.h>

#include "util/json.h"

static const char *const fields[] = { "code", "cmd", "argv", "stdin", "input", "path", "to", NULL };

static void add_text(GString *words, const json_t *value)
{
	const json_t *item;
	gsize i;

	/* What was typed or piped in. */
	if (json_is_object(value))
		value = json_object_get(value, "text");
	if (json_is_string(value)) {
		if (words->len > 0)
			g_string_append_c(words, '\n');
		g_string_append_len(words, json_string_value(value), (gssize)json_string_length(value));
	}
	json_array_foreach (value, i, item)
		add_text(words, item);
}

char *vial_audit_words(const char *body, gsize size)
{
	/* Our own, so not judged again: a cell may be nested as it likes, but it is one string. */
	g_autoptr(json_t) json = json_loadb(body, size, 0, NULL);
	GString *words = g_string_new(NULL);

	for (gsize i = 0; json && fields[i]; i++)
		add_text(words, json_object_get(json, fields[i]));
	return g_string_free(words, words->len == 0);
}

static gboolean has_letter(const char *word)
{
	for (; *word; word = g_utf8_next_char(word))
		if (g_unichar_isalnum(g_utf8_get_char(word)))
			return TRUE;
	return FALSE;
}

/* A word such as pd.read_csv is a phrase to FTS5, which takes it apart as it did the code. */
char *vial_audit_words_query(const char *text)
{
	g_auto(GStrv) parts = g_strsplit_set(text, " \t\r\n", -1);
	GString *query = g_string_new(NULL);

	for (char **part = parts; *part; part++) {
		if (!has_letter(*part))
			continue;
		g_string_append(query, query->len ? " AND \"" : "\"");
		for (const char *c = *part; *c; c++)
			g_string_append(query, *c == '"' ? "\"\"" : (char[]){ *c, '\0' });
		g_string_append_c(query, '"');
	}
	return g_string_free(query, query->len == 0);
}
