/* SPDX-License-Identifier: Apache-2.0 */
#include "util/config.h"

#include <glib/gstdio.h>
#include <string.h>

#include "util/config_table.h"

static VialConfig *load(const char *flags, GError **error)
{
	g_auto(GStrv) argv = NULL;
	g_autofree char *line = g_strconcat("viald ", flags, NULL);
	int argc;

	g_assert_true(g_shell_parse_argv(line, &argc, &argv, NULL));
	/* GOption takes entries out of the vector; keep them for freeing. */
	g_autofree char **vector = g_memdup2(argv, sizeof(char *) * (gsize)(argc + 1));
	return vial_config_load(&argc, &vector, NULL, error);
}

static void expect_refused(const char *flags, const char *word)
{
	g_autoptr(GError) error = NULL;

	g_assert_null(load(flags, &error));
	if (!strstr(error->message, word))
		g_error("\"%s\" does not say \"%s\"", error->message, word);
}

static char *write_file(const char *text)
{
	char *path = NULL;
	int fd = g_file_open_tmp("vial-test-XXXXXX", &path, NULL);

	g_assert_cmpint(fd, >=, 0);
	g_close(fd, NULL);
	g_assert_true(g_file_set_contents(path, text, -1, NULL));
	return path;
}

static void test_defaults(void)
{
	g_autofree char *empty = write_file("");
	g_autofree char *flags = g_strdup_printf("--config %s", empty);
	g_autoptr(VialConfig) config = load(flags, NULL);

	g_assert_cmpstr(config->listen, ==, "127.0.0.1:7070");
	g_assert_cmpstr(config->images_dir, ==, "/var/lib/vial/images");
	g_assert_false(config->allow_public);
	g_assert_cmpuint(g_strv_length(config->cors_origins), ==, 0);
	g_assert_true(g_path_is_absolute(config->program_dir));
	g_unlink(empty);
}

static void test_priority(void)
{
	g_autofree char *file = write_file("# comment\nlisten = 127.0.0.1:1\npool_size = 1\nmax_sandboxes = 1\ncors_origins = a , b,\n");
	g_autofree char *flags = g_strdup_printf("--config %s --max-sandboxes=3 --allow-public", file);

	g_setenv("VIAL_POOL_SIZE", "2", TRUE);
	g_setenv("VIAL_MAX_SANDBOXES", "2", TRUE);
	g_setenv("VIAL_DATA", "/data", TRUE);
	g_autoptr(VialConfig) config = load(flags, NULL);
	g_unsetenv("VIAL_POOL_SIZE");
	g_unsetenv("VIAL_MAX_SANDBOXES");
	g_unsetenv("VIAL_DATA");
	g_assert_cmpstr(config->listen, ==, "127.0.0.1:1");
	g_assert_cmpint(config->pool_size, ==, 2);
	g_assert_cmpint(config->max_sandboxes, ==, 3);
	g_assert_cmpstr(config->images_dir, ==, "/data/images");
	g_assert_true(config->allow_public);
	g_assert_cmpuint(g_strv_length(config->cors_origins), ==, 2);
	g_assert_cmpstr(config->cors_origins[1], ==, "b");
	g_unlink(file);
}

static void test_errors_say_where(void)
{
	g_autofree char *typo = write_file("[vial]\nlissten = 1\n");
	g_autofree char *section = write_file("[other]\nlisten = 1\n");
	g_autofree char *nonsense = write_file("listen 1\n");
	g_autofree char *bad = write_file("pool_size = many\n");
	const char *files[] = { typo, section, nonsense, bad };

	for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
		g_autofree char *flags = g_strdup_printf("--config %s", files[i]);
		expect_refused(flags, files[i]);
		g_unlink(files[i]);
	}
	expect_refused("--config /nonexistent/vial.conf", "/nonexistent/vial.conf");
	expect_refused("--pool-size=-1", "the flag --pool-size");
	expect_refused("--engine=docker", "one of auto, gvisor, microvm");
	expect_refused("--data-dir=relative", "absolute");
	expect_refused("--allow-public=maybe", "true or false");
	expect_refused("--tls-cert=/cert.pem", "tls_key");
	expect_refused("--max-ttl-seconds=60", "default_ttl_seconds");
	expect_refused("--no-such-flag", "--no-such-flag");
	g_setenv("VIAL_POOL_SIZE", "x", TRUE);
	expect_refused("", "VIAL_POOL_SIZE");
	g_unsetenv("VIAL_POOL_SIZE");
}

/* The page for people and the table may not drift apart. */
static void test_every_setting_is_documented(void)
{
	const char *root = g_getenv("VIAL_SOURCE_DIR");
	g_autofree char *path = NULL, *page = NULL;

	if (!root) {
		g_test_skip("VIAL_SOURCE_DIR is not set");
		return;
	}
	path = g_build_filename(root, "docs", "configuration.md", NULL);
	g_assert_true(g_file_get_contents(path, &page, NULL, NULL));
	for (gsize i = 0; i < vial_n_settings; i++) {
		g_autofree char *row = g_strdup_printf("| `%s` | `%s` |", vial_settings[i].name, vial_settings[i].initial);
		if (!strstr(page, row))
			g_error("docs/configuration.md has no row \"%s\"", row);
	}
}

/* The test runner's own VIAL_* variables are not what is tested. */
static void forget_environment(void)
{
	g_auto(GStrv) names = g_listenv();

	for (char **name = names; *name; name++)
		if (g_str_has_prefix(*name, "VIAL_") && strcmp(*name, "VIAL_SOURCE_DIR") != 0)
			g_unsetenv(*name);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	forget_environment();
	g_test_add_func("/config/defaults", test_defaults);
	g_test_add_func("/config/priority", test_priority);
	g_test_add_func("/config/errors-say-where", test_errors_say_where);
	g_test_add_func("/config/every-setting-is-documented", test_every_setting_is_documented);
	return g_test_run();
}
