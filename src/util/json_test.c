/* SPDX-License-Identifier: Apache-2.0 */
#include "util/json.h"

#include <string.h>

#include "util/error.h"

static void expect_refused(const char *text, gsize size, const char *word)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(json_t) value = vial_json_parse(text, size, &error);

	g_assert_null(value);
	g_assert_error(error, VIAL_ERROR, VIAL_ERROR_INVALID);
	g_assert_nonnull(strstr(error->message, word));
	g_assert_true(g_utf8_validate(error->message, -1, NULL));
}

static void test_refuses_what_is_ambiguous(void)
{
	static const struct {
		const char *text, *word;
	} cases[] = {
		{ "{\"a\":1,\"a\":2}", "duplicate" },
		{ "{\"a\":\"\\u0000\"}", "" },
		{ "{\"a\":\"\xff\"}", "" },
		{ "{} {}", "" },
		{ "", "" },
		{ "{\"a\":1e999}", "" },
		{ "[1,]", "" },
		{ "{\"a\":\"\\ud800\"}", "" },
		{ "{a:1}", "" },
		{ "{\"a\":12345678901234567890123}", "" },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		expect_refused(cases[i].text, strlen(cases[i].text), cases[i].word);
	expect_refused("\"a\0b\"", 5, "");
}

static void test_limits_the_depth(void)
{
	g_autoptr(GString) text = g_string_new(NULL);

	for (int i = 0; i < VIAL_JSON_MAX_DEPTH; i++)
		g_string_append_c(text, '[');
	for (int i = 0; i < VIAL_JSON_MAX_DEPTH; i++)
		g_string_append_c(text, ']');
	g_autoptr(json_t) value = vial_json_parse(text->str, text->len, NULL);
	g_assert_nonnull(value);
	g_string_prepend_c(text, '[');
	g_string_append_c(text, ']');
	expect_refused(text->str, text->len, "deeper");
	/* Brackets inside strings do not count. */
	g_autoptr(json_t) string = vial_json_parse("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[\"", 46, NULL);
	g_assert_nonnull(string);
}

static void test_reads_typed_fields(void)
{
	g_autoptr(json_t) object = vial_json_parse_object("{\"s\":\"x\",\"i\":60.0,\"b\":true,\"n\":null,\"d\":1.5}", 44, NULL);
	const char *text = "default";
	gint64 number = 5;
	gboolean flag = FALSE;
	double real = 0;

	g_assert_nonnull(object);
	g_assert_true(vial_json_get_string(object, "s", VIAL_JSON_REQUIRED, 10, &text, NULL));
	g_assert_cmpstr(text, ==, "x");
	g_assert_true(vial_json_get_string(object, "n", VIAL_JSON_OPTIONAL, 10, &text, NULL));
	g_assert_cmpstr(text, ==, "x");
	g_assert_true(vial_json_get_int(object, "i", 0, 0, 100, &number, NULL));
	g_assert_cmpint(number, ==, 60);
	g_assert_false(vial_json_get_int(object, "d", 0, 0, 100, &number, NULL));
	g_assert_cmpint(number, ==, 60);
	g_assert_true(vial_json_get_bool(object, "b", 0, &flag, NULL));
	g_assert_true(flag);
	g_assert_true(vial_json_get_double(object, "d", 0, 0, 2, &real, NULL));
	g_assert_cmpfloat(real, ==, 1.5);
	g_assert_false(vial_json_get_double(object, "d", 0, 0, 1, &real, NULL));
	g_assert_false(vial_json_get_string(object, "absent", VIAL_JSON_REQUIRED, 10, &text, NULL));
	g_assert_false(vial_json_get_string(object, "n", VIAL_JSON_REQUIRED, 10, &text, NULL));
	g_assert_false(vial_json_get_string(object, "n", VIAL_JSON_NOT_NULL, 10, &text, NULL));
	g_assert_true(vial_json_get_string(object, "absent", VIAL_JSON_NOT_NULL, 10, &text, NULL));
}

static void test_names_the_field(void)
{
	g_autoptr(json_t) object = vial_json_parse_object("{\"env\":{\"A\":1}}", 15, NULL);
	g_autoptr(GError) error = NULL;
	json_t *map = NULL;

	g_assert_false(vial_json_get_string_map(object, "env", 0, 8, 8, 8, &map, &error));
	g_assert_nonnull(strstr(error->message, "\"env.A\""));
	g_assert_null(map);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/json/refuses-what-is-ambiguous", test_refuses_what_is_ambiguous);
	g_test_add_func("/json/limits-the-depth", test_limits_the_depth);
	g_test_add_func("/json/reads-typed-fields", test_reads_typed_fields);
	g_test_add_func("/json/names-the-field", test_names_the_field);
	return g_test_run();
}
