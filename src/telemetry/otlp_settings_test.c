/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/otlp_settings.h"

#include <glib/gstdio.h>
#include <string.h>

#define SECRET "hunter2"

static gboolean read_settings(const char *endpoint, char **headers, const char *file, VialOtlpSettings *out, GError **error)
{
	char *none[] = { NULL };
	VialConfig config = {
		.otlp_endpoint = (char *)endpoint,
		.otlp_headers = headers ? headers : none,
		.otlp_headers_file = (char *)(file ? file : ""),
		.otlp_service_name = (char *)"vial",
	};

	return vial_otlp_settings_read(&config, out, error);
}

static void expect_refused(const char *endpoint, char **headers, const char *file, const char *words)
{
	g_auto(VialOtlpSettings) settings = { 0 };
	g_autoptr(GError) error = NULL;

	g_assert_false(read_settings(endpoint, headers, file, &settings, &error));
	if (!strstr(error->message, words))
		g_error("\"%s\" does not say \"%s\"", error->message, words);
	g_assert_null(strstr(error->message, SECRET));
	g_assert_null(settings.url);
	g_assert_null(settings.headers);
}

static void test_endpoints(void)
{
	static const char *const good[][2] = {
		{ "http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces" },
		{ "http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces" },
		{ "https://otlp.example/tenant/otlp//", "https://otlp.example/tenant/otlp/v1/traces" },
		{ "HTTP://[::1]:4318", "HTTP://[::1]:4318/v1/traces" },
	};
	static const char *const bad[][2] = {
		{ "127.0.0.1:4318", "an address like" },
		{ "localhost:4318", "an address like" },
		{ "http://", "an address like" },
		{ "http://:4318", "an address like" },
		{ "http://a b", "an address like" },
		{ "http://a\r\nHost: b", "an address like" },
		{ "ftp://a", "http:// or https://" },
		{ "file:///etc/passwd", "http:// or https://" },
		{ "http://a/?token=1", "without ?" },
		{ "http://a/#b", "without ?" },
		{ "http://a:4318/v1/traces", "which is added" },
		{ "http://a:4318/v1/traces/", "which is added" },
		{ "http://user:" SECRET "@a", "otlp_headers_file" },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(good); i++) {
		g_auto(VialOtlpSettings) settings = { 0 };
		g_autoptr(GError) error = NULL;
		read_settings(good[i][0], NULL, NULL, &settings, &error);
		g_assert_no_error(error);
		g_assert_cmpstr(settings.url, ==, good[i][1]);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(bad); i++)
		expect_refused(bad[i][0], NULL, NULL, bad[i][1]);
}

static void test_headers(void)
{
	static char *good[] = { "x-tenant=blue", " authorization = Basic YTpi== ", NULL };
	static const char *const bad[][2] = {
		{ "x-a=" SECRET "\r\nx-b: 1", "\"x-a\" has a line break" },
		{ "x-a=" SECRET "\n", "\"x-a\" has a line break" },
		{ "x-a=\x7f" SECRET, "control character" },
		{ "x-a\r\nx-b=" SECRET, "name may have" },
		{ "x-a\n=" SECRET, "name may have" },
		{ "x a=" SECRET, "name may have" },
		{ "=" SECRET, "name may have" },
		{ SECRET, "has no \"=\"" },
		{ "x-a= ", "has no value" },
		{ "Content-Length=1", "set by viald itself" },
		{ "transfer-encoding=chunked", "set by viald itself" },
	};
	g_auto(VialOtlpSettings) settings = { 0 };

	g_assert_true(read_settings("http://a", good, NULL, &settings, NULL));
	g_assert_cmpstr(settings.headers->data, ==, "x-tenant: blue");
	g_assert_cmpstr(settings.headers->next->data, ==, "authorization: Basic YTpi==");
	g_assert_null(settings.headers->next->next);
	for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
		char *headers[] = { (char *)bad[i][0], NULL };
		expect_refused("http://a", headers, NULL, bad[i][1]);
	}
}

static void test_too_much_is_refused(void)
{
	g_autofree char *value = g_strnfill(VIAL_OTLP_HEADER_MAX_BYTES, 'v'), *longest = g_strconcat("x-a=", value, NULL);
	char *long_one[] = { longest, NULL }, *many[VIAL_OTLP_MAX_HEADERS + 2] = { 0 };

	for (gsize i = 0; i < VIAL_OTLP_MAX_HEADERS + 1; i++)
		many[i] = (char *)"x-a=1";
	expect_refused("http://a", long_one, NULL, "longer than");
	expect_refused("http://a", many, NULL, "more than 32");
}

static char *write_file(const char *content, gssize size, int mode)
{
	char *path = NULL;
	int fd = g_file_open_tmp("vial-test-XXXXXX", &path, NULL);

	g_assert_cmpint(fd, >=, 0);
	g_close(fd, NULL);
	g_assert_true(g_file_set_contents(path, content, size, NULL));
	g_assert_cmpint(g_chmod(path, (mode_t)mode), ==, 0);
	return path;
}

static void expect_file_refused(const char *content, gssize size, int mode, const char *words)
{
	g_autofree char *path = write_file(content, size, mode);

	expect_refused("http://a", NULL, path, words);
	g_unlink(path);
}

static void test_the_file(void)
{
	g_autofree char *path = write_file("# ours\n\n authorization: Bearer " SECRET "\r\nx-list:a, b:c\n", -1, 0640);
	char *headers[] = { "x-tenant=blue", NULL };
	g_auto(VialOtlpSettings) settings = { 0 };

	g_assert_true(read_settings("http://a", headers, path, &settings, NULL));
	g_unlink(path);
	g_assert_cmpstr(settings.headers->data, ==, "x-tenant: blue");
	g_assert_cmpstr(settings.headers->next->data, ==, "authorization: Bearer " SECRET);
	g_assert_cmpstr(settings.headers->next->next->data, ==, "x-list: a, b:c");
	expect_file_refused("x-a: " SECRET "\n", -1, 0644, "has mode 644");
	expect_file_refused("x-a: " SECRET "\n", -1, 0620, "has mode 620");
	expect_file_refused(SECRET "\n", -1, 0600, "has no \":\"");
	expect_file_refused("x-a: " SECRET "\rx-b: 1\n", -1, 0600, "line break");
	expect_file_refused("x-a: 1\0x-b: " SECRET, 20, 0600, "not a text");
	expect_refused("http://a", NULL, "/nonexistent/headers", "/nonexistent/headers");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/otlp-settings/endpoints", test_endpoints);
	g_test_add_func("/otlp-settings/headers", test_headers);
	g_test_add_func("/otlp-settings/too-much-is-refused", test_too_much_is_refused);
	g_test_add_func("/otlp-settings/the-file", test_the_file);
	return g_test_run();
}
