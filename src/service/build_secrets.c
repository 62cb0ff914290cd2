/* SPDX-License-Identifier: Apache-2.0 */
#include "service/build_secrets.h"

#include <string.h>

#define REDACTED "[redacted]"

struct VialBuildSecrets {
	GPtrArray *texts; /* char * */
	gsize longest;    /* of them */
};

VialBuildSecrets *vial_build_secrets_new(void)
{
	VialBuildSecrets *secrets = g_new0(VialBuildSecrets, 1);

	secrets->texts = g_ptr_array_new_with_free_func(g_free);
	return secrets;
}

void vial_build_secrets_forget(VialBuildSecrets *secrets)
{
	for (guint i = 0; i < secrets->texts->len; i++)
		explicit_bzero(secrets->texts->pdata[i], strlen(secrets->texts->pdata[i]));
	g_ptr_array_set_size(secrets->texts, 0);
	secrets->longest = 0;
}

void vial_build_secrets_free(VialBuildSecrets *secrets)
{
	vial_build_secrets_forget(secrets);
	g_ptr_array_unref(secrets->texts);
	g_free(secrets);
}

typedef void (*LineFunc)(const char *line, gpointer data);

static void each_line(json_t *values, LineFunc func, gpointer data)
{
	const char *name;
	json_t *value;

	json_object_foreach (values, name, value) {
		g_auto(GStrv) lines = g_strsplit_set(json_string_value(value), "\r\n", -1);

		for (guint i = 0; lines[i]; i++) {
			if (strlen(lines[i]) >= VIAL_BUILD_SECRET_MIN_BYTES)
				func(lines[i], data);
			explicit_bzero(lines[i], strlen(lines[i]));
		}
	}
}

static void add_line(const char *line, gpointer data)
{
	VialBuildSecrets *secrets = data;

	g_ptr_array_add(secrets->texts, g_strdup(line));
	secrets->longest = MAX(secrets->longest, strlen(line));
}

void vial_build_secrets_add(VialBuildSecrets *secrets, json_t *values)
{
	each_line(values, add_line, secrets);
}

static void count_line(const char *line, gpointer data)
{
	++*(guint *)data;
}

guint vial_build_secrets_count(json_t *values)
{
	guint count = 0;

	each_line(values, count_line, &count);
	return count;
}

gsize vial_build_secrets_longest(const VialBuildSecrets *secrets)
{
	return secrets->longest;
}

guint8 *vial_build_secrets_mark(const VialBuildSecrets *secrets, const char *text, gsize size, gsize covered)
{
	guint8 *marks = NULL;

	if (size == 0 || (covered == 0 && secrets->texts->len == 0))
		return NULL;
	marks = g_malloc0(size);
	memset(marks, 1, MIN(covered, size));
	for (guint i = 0; i < secrets->texts->len; i++) {
		const char *secret = secrets->texts->pdata[i], *found = text;
		gsize length = strlen(secret), marked = 0;

		/* From the next byte, as a secret may overlap itself; what is marked is not marked again. */
		for (; (found = memmem(found, size - (gsize)(found - text), secret, length)); found++) {
			gsize begin = MAX(marked, (gsize)(found - text));

			marked = (gsize)(found - text) + length;
			memset(marks + begin, 1, marked - begin);
		}
	}
	return marks;
}

GString *vial_build_secrets_hide(const char *text, gsize size, const guint8 *marks, gboolean goes_on)
{
	GString *out = g_string_sized_new(size);
	gsize at = 0;

	while (marks && at < size) {
		gsize end = at;

		while (end < size && (marks[end] != 0) == (marks[at] != 0))
			end++;
		if (!marks[at])
			g_string_append_len(out, text + at, (gssize)(end - at));
		else if (at > 0 || !goes_on)
			g_string_append(out, REDACTED);
		at = end;
	}
	if (!marks)
		g_string_append_len(out, text, (gssize)size);
	return out;
}

char *vial_build_secrets_clean(const VialBuildSecrets *secrets, const char *text)
{
	g_autofree guint8 *marks = vial_build_secrets_mark(secrets, text, strlen(text), 0);

	return g_string_free(vial_build_secrets_hide(text, strlen(text), marks, FALSE), FALSE);
}
