/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gboolean is_due(const char *point, int from)
{
	static GMutex lock;
	static GHashTable *passed;
	int count;

	g_mutex_lock(&lock);
	if (!passed)
		passed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	count = GPOINTER_TO_INT(g_hash_table_lookup(passed, point)) + 1;
	g_hash_table_replace(passed, g_strdup(point), GINT_TO_POINTER(count));
	g_mutex_unlock(&lock);
	return count >= from;
}

static gboolean fire(const char *point, char **words)
{
	gboolean crashes = words[1] && strcmp(words[1], "crash") == 0;
	const char *number = words[1] ? (crashes ? words[2] : words[1]) : NULL;

	if (!is_due(point, number ? atoi(number) : 1))
		return FALSE;
	if (crashes)
		kill(getpid(), SIGKILL);
	errno = EIO;
	return TRUE;
}

/* The words of the point's line; NULL when there is none. */
static char **find_line(const char *point)
{
	const char *path = g_getenv("VIAL_FAULTS");
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;

	if (!path || !g_file_get_contents(path, &text, NULL, NULL))
		return NULL;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		g_auto(GStrv) words = g_strsplit(g_strstrip(*line), " ", 3);

		if (words[0] && strcmp(words[0], point) == 0)
			return g_steal_pointer(&words);
	}
	return NULL;
}

gboolean vial_fault(const char *point)
{
	g_auto(GStrv) words = find_line(point);

	return words && fire(point, words);
}

gint64 vial_fault_measure(const char *point, gint64 real)
{
	g_auto(GStrv) words = find_line(point);

	return words && words[1] ? g_ascii_strtoll(words[1], NULL, 10) : real;
}
