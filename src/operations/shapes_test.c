/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/shapes.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

typedef struct {
	gboolean flag;
	gint64 number;
	double real;
	const char *text;
	const char *token;
	json_t *list;
} Said;

VIAL_SHAPE(item_shape, { "name", VIAL_SHAPE_TEXT, TRUE, 0, 8, NULL, 0 });
VIAL_SHAPE(said_shape, { "flag", VIAL_SHAPE_BOOL, TRUE, 0, 0, NULL, G_STRUCT_OFFSET(Said, flag) },
           { "number", VIAL_SHAPE_INT, TRUE, 1, 10, NULL, G_STRUCT_OFFSET(Said, number) },
           { "real", VIAL_SHAPE_NUMBER, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(Said, real) },
           { "text", VIAL_SHAPE_TEXT, FALSE, 0, 8, NULL, G_STRUCT_OFFSET(Said, text) },
           { "token", VIAL_SHAPE_TOKEN, FALSE, 0, 8, NULL, G_STRUCT_OFFSET(Said, token) },
           { "list", VIAL_SHAPE_LIST, FALSE, 0, 2, &item_shape, G_STRUCT_OFFSET(Said, list) }, { "loads", VIAL_SHAPE_LIST, FALSE, 0, 3, NULL, 0 },
           { "item", VIAL_SHAPE_OBJECT, FALSE, 0, 0, &item_shape, 0 }, { "texts", VIAL_SHAPE_TEXTS, FALSE, 0, 8, NULL, 0 });
VIAL_SHAPE(read_shape, { "flag", VIAL_SHAPE_BOOL, TRUE, 0, 0, NULL, G_STRUCT_OFFSET(Said, flag) },
           { "number", VIAL_SHAPE_INT, TRUE, 1, 10, NULL, G_STRUCT_OFFSET(Said, number) },
           { "real", VIAL_SHAPE_NUMBER, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(Said, real) },
           { "text", VIAL_SHAPE_TEXT, FALSE, 0, 8, NULL, G_STRUCT_OFFSET(Said, text) },
           { "token", VIAL_SHAPE_TOKEN, FALSE, 0, 8, NULL, G_STRUCT_OFFSET(Said, token) },
           { "list", VIAL_SHAPE_LIST, FALSE, 0, 2, &item_shape, G_STRUCT_OFFSET(Said, list) });

static json_t *parse(const char *text)
{
	json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);

	g_assert_nonnull(json);
	return json;
}

static void test_a_struct_is_filled(void)
{
	g_autoptr(json_t) json = parse(
		"{\"flag\":true,\"number\":7,\"real\":0.5,\"text\":\"a b\",\"token\":\"ok\",\"list\":[{\"name\":\"x\",\"more\":1}],\"ok\":true}");
	Said said = { 0 };

	g_assert_true(vial_shape_read(&read_shape, json, &said, NULL));
	g_assert_true(said.flag);
	g_assert_cmpint(said.number, ==, 7);
	g_assert_cmpfloat(said.real, ==, 0.5);
	g_assert_cmpstr(said.text, ==, "a b");
	g_assert_cmpstr(said.token, ==, "ok");
	g_assert_cmpuint(json_array_size(said.list), ==, 1);
	g_assert_null(json_object_get(json_array_get(said.list, 0), "more"));
	json_decref(said.list);
}

static void test_what_no_table_knows_is_dropped(void)
{
	g_autoptr(json_t) json = parse("{\"ok\":true,\"flag\":false,\"number\":1,\"extra\":{\"deep\":[1]},\"text\":null}");
	g_autoptr(json_t) copy = vial_shape_copy(&said_shape, json, NULL);
	g_autofree char *text = vial_json_dump(copy);

	g_assert_cmpstr(text, ==, "{\"flag\":false,\"number\":1}");
}

static void test_nonsense_is_refused_by_name(void)
{
	static const struct {
		const char *text, *named;
	} cases[] = {
		{ "{\"ok\":true}", "\"flag\" is missing" },
		{ "{\"flag\":1,\"number\":1}", "\"flag\"" },
		{ "{\"flag\":true}", "\"number\" is missing" },
		{ "{\"flag\":true,\"number\":0}", "\"number\" is out of range" },
		{ "{\"flag\":true,\"number\":11}", "\"number\" is out of range" },
		{ "{\"flag\":true,\"number\":1.5}", "\"number\" is not an integer" },
		{ "{\"flag\":true,\"number\":\"1\"}", "\"number\"" },
		{ "{\"flag\":true,\"number\":1,\"real\":\"1\"}", "\"real\"" },
		{ "{\"flag\":true,\"number\":1,\"text\":\"123456789\"}", "\"text\" is too long" },
		{ "{\"flag\":true,\"number\":1,\"text\":[]}", "\"text\"" },
		{ "{\"flag\":true,\"number\":1,\"token\":\"a b\"}", "\"token\"" },
		{ "{\"flag\":true,\"number\":1,\"token\":\"\\u001b[m\"}", "\"token\"" },
		{ "{\"flag\":true,\"number\":1,\"list\":{}}", "\"list\" is not a list" },
		{ "{\"flag\":true,\"number\":1,\"list\":[1]}", "\"list\"" },
		{ "{\"flag\":true,\"number\":1,\"list\":[{\"name\":\"a\"},{\"name\":\"a\"},{\"name\":\"a\"}]}", "\"list\" has too many" },
		{ "{\"flag\":true,\"number\":1,\"list\":[{}]}", "\"name\" is missing" },
		{ "{\"flag\":true,\"number\":1,\"loads\":[1,\"2\"]}", "\"loads\"" },
		{ "{\"flag\":true,\"number\":1,\"item\":[]}", "\"item\"" },
		{ "{\"flag\":true,\"number\":1,\"texts\":[]}", "\"texts\" is no object" },
		{ "{\"flag\":true,\"number\":1,\"texts\":{\"a\":1}}", "\"texts\" has something that is no text" },
		{ "{\"flag\":true,\"number\":1,\"texts\":{\"name\":\"value\"}}", "\"texts\" is too long" },
		{ "[]", "not an object" },
		{ "3", "not an object" },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(json_t) json = parse(cases[i].text);
		g_autoptr(GError) error = NULL;

		g_assert_null(vial_shape_copy(&said_shape, json, &error));
		g_assert_error(error, VIAL_ERROR, VIAL_ERROR_GATEWAY);
		if (!strstr(error->message, cases[i].named))
			g_error("%s: \"%s\" does not say %s", cases[i].text, error->message, cases[i].named);
	}
}

static void test_bundles_have_bounded_names(void)
{
	g_autoptr(json_t) good = parse("{\"text/plain\":\"x\",\"application/vnd.a+json\":{\"a\":[1,2]}}");
	g_autoptr(json_t) long_key = json_object(), many = json_object();
	static const char *const bad[] = { "", "text/plain\n", "a\x1b[31m", "text/\"x\"", "t\xc3\xa4xt" };
	char key[VIAL_BUNDLE_KEY_MAX_BYTES + 2];
	gsize size = 0;

	g_assert_true(vial_bundle_check(good, &size, NULL));
	g_assert_cmpuint(size, ==, strlen("{\"text/plain\":\"x\",\"application/vnd.a+json\":{\"a\":[1,2]}}"));
	for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
		g_autoptr(json_t) bundle = json_object();

		json_object_set_new(bundle, bad[i], json_true());
		g_assert_false(vial_bundle_check(bundle, &size, NULL));
	}
	memset(key, 'a', sizeof(key));
	key[sizeof(key) - 1] = '\0';
	json_object_set_new(long_key, key, json_true());
	g_assert_false(vial_bundle_check(long_key, &size, NULL));
	for (int i = 0; i <= VIAL_BUNDLE_MAX_KEYS; i++) {
		g_autofree char *name = g_strdup_printf("text/%d", i);

		json_object_set_new(many, name, json_true());
	}
	g_assert_false(vial_bundle_check(many, &size, NULL));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/shapes/a-struct-is-filled", test_a_struct_is_filled);
	g_test_add_func("/shapes/what-no-table-knows-is-dropped", test_what_no_table_knows_is_dropped);
	g_test_add_func("/shapes/nonsense-is-refused-by-name", test_nonsense_is_refused_by_name);
	g_test_add_func("/shapes/bundles-have-bounded-names", test_bundles_have_bounded_names);
	return g_test_run();
}
