/* SPDX-License-Identifier: Apache-2.0 */
#include "service/build_log.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/build_secrets.h"
#include "util/json.h"

static char *path;

/* What was printed, line for line, "|" between them and "0" for a NUL. */
static char *printed(void)
{
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;
	GString *out = g_string_new(NULL);

	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	lines = g_strsplit(text, "\n", -1);
	for (guint i = 0; lines[i] && *lines[i]; i++) {
		g_autoptr(json_t) line = json_loads(lines[i], JSON_ALLOW_NUL, NULL);
		const json_t *shown = json_object_get(line, "text");

		g_assert_nonnull(shown);
		for (gsize c = 0; c < json_string_length(shown); c++)
			g_string_append_c(out, json_string_value(shown)[c] ? json_string_value(shown)[c] : '0');
		g_string_append_c(out, '|');
	}
	return g_string_free(out, FALSE);
}

/* Prints it in pieces of each size, to a log that hides `secrets`, and returns what is to be read there, which must always be the same. */
static char *print(json_t *secrets, const char *bytes, gsize size)
{
	char *first = NULL;

	for (gsize piece = size; piece > 0; piece = MIN(piece - 1, piece / 2 + 3)) {
		g_autofree char *now = NULL;
		VialBuildLog *log;

		g_unlink(path);
		log = vial_build_log_open(path, NULL);
		vial_build_log_hide(log, secrets);
		for (gsize at = 0; at < size; at += piece)
			vial_build_log_output(log, FALSE, bytes + at, MIN(piece, size - at));
		vial_build_log_close(log);
		vial_build_log_unref(log);
		now = printed();
		if (first)
			g_assert_cmpstr(now, ==, first);
		else
			first = g_steal_pointer(&now);
	}
	return first;
}

static void expect(json_t *secrets, const char *bytes, gsize size, const char *said)
{
	g_autofree char *shown = print(secrets, bytes, size);

	g_assert_cmpstr(shown, ==, said);
	json_decref(secrets);
}

static void test_a_nul_hides_nothing(void)
{
	static const char text[] = "HOME=/root\0TOKEN=hush-hush\0LANG=C\n";

	expect(json_pack("{s:s}", "TOKEN", "hush-hush"), text, sizeof text - 1, "HOME=/root0TOKEN=[redacted]0LANG=C|");
}

static void test_secrets_in_secrets(void)
{
	static const char text[] = "deploy1 deploy1-9xQ-abc deploy1-9\n";

	expect(json_pack("{s:s, s:s}", "USER", "deploy1", "PASS", "deploy1-9xQ-abc"), text, sizeof text - 1, "[redacted] [redacted] [redacted]-9|");
	expect(json_pack("{s:s, s:s}", "A", "abcdef", "B", "defghi"), "xabcdefghix\n", 12, "x[redacted]x|");
	expect(json_pack("{s:s}", "A", "abaaba"), "xabaabaabax\n", 12, "x[redacted]x|");
	expect(json_pack("{s:s}", "KEY", "first-line\r\nsecond-line\n"), "a second-line\nfirst-line", 24, "a [redacted]|[redacted]|");
}

/* Wherever a line without an end is cut, no piece of a secret is to be seen. */
static void test_a_secret_where_a_line_is_cut(void)
{
	g_autofree char *dots = g_strnfill(3 * VIAL_BUILD_LOG_LINE_BYTES, '.');

	for (gsize at = VIAL_BUILD_LOG_LINE_BYTES - 12; at < VIAL_BUILD_LOG_LINE_BYTES + 12; at++) {
		g_autoptr(json_t) secrets = json_pack("{s:s, s:s}", "A", "0123456", "B", "456789abc");
		g_autofree char *text = g_strdup(dots), *shown = NULL, *whole = NULL;
		g_auto(GStrv) lines = NULL;

		memcpy(text + at, "0123456789abc", 13);
		shown = print(secrets, text, strlen(text));
		for (const char *c = "0123456789"; *c; c++)
			g_assert_null(strchr(shown, *c));
		lines = g_strsplit(shown, "|", -1);
		whole = g_strjoinv("", lines);
		g_assert_nonnull(strstr(whole, ".[redacted]."));
		g_assert_null(strstr(strstr(whole, "[redacted]") + 1, "[redacted]"));
	}
}

static void test_half_a_line_is_not_gone_on_with(void)
{
	VialBuildLog *log = vial_build_log_open(path, NULL);
	g_autofree char *shown = NULL;
	struct stat info;

	vial_build_log_event(log, "whole");
	vial_build_log_event(log, "half");
	vial_build_log_unref(log);
	g_assert_cmpint(stat(path, &info), ==, 0);
	g_assert_cmpint(truncate(path, info.st_size - 5), ==, 0);
	log = vial_build_log_open(path, NULL);
	vial_build_log_event(log, "again");
	vial_build_log_unref(log);
	shown = printed();
	g_assert_cmpstr(shown, ==, "whole|again|");
}

static void test_the_step_of_the_last_line(void)
{
	VialBuildLog *log = vial_build_log_open(path, NULL);

	vial_build_log_step(log, 7, 9);
	vial_build_log_output(log, FALSE, "a\0b\n", 4);
	vial_build_log_unref(log);
	g_assert_cmpuint(vial_build_log_last_step(path), ==, 7);
}

static void test_lines_of_secrets_are_counted(void)
{
	g_autoptr(json_t) secrets = json_pack("{s:s, s:s}", "A", "one line", "B", "two lines\nshort\nof three\n");

	g_assert_cmpuint(vial_build_secrets_count(secrets), ==, 3);
}

static void run(gconstpointer test)
{
	g_autofree char *dir = g_dir_make_tmp("vial-build-log-XXXXXX", NULL);

	path = g_build_filename(dir, "log", NULL);
	((void (*)(void))test)();
	g_unlink(path);
	g_rmdir(dir);
	g_clear_pointer(&path, g_free);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/build log/a NUL hides nothing", test_a_nul_hides_nothing, run);
	g_test_add_data_func("/build log/secrets in secrets", test_secrets_in_secrets, run);
	g_test_add_data_func("/build log/a secret where a line is cut", test_a_secret_where_a_line_is_cut, run);
	g_test_add_data_func("/build log/half a line is not gone on with", test_half_a_line_is_not_gone_on_with, run);
	g_test_add_data_func("/build log/the step of the last line", test_the_step_of_the_last_line, run);
	g_test_add_data_func("/build log/lines of secrets are counted", test_lines_of_secrets_are_counted, run);
	return g_test_run();
}
