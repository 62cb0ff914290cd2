/* SPDX-License-Identifier: Apache-2.0 */
#include "util/json_fields.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

typedef enum { RED, GREEN } Colour;

typedef struct {
	char *text;
	gint64 number;
	double share;
	gboolean is_set;
	Colour colour;
	json_t *object;
	gint64 made_at_ms;
} Thing;

static json_t *twice(gconstpointer instance)
{
	const Thing *thing = instance;

	return thing->number ? json_integer(thing->number * 2) : NULL;
}

static const char *const colours[] = { "red", "green", NULL };
static const VialField fields[] = {
	{ VIAL_FIELD("text", TEXT, Thing, text), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("number", INT, Thing, number) },
	{ VIAL_FIELD("share", DOUBLE, Thing, share) },
	{ VIAL_FIELD("is_set", BOOL, Thing, is_set) },
	{ VIAL_FIELD("colour", ENUM, Thing, colour), .names = colours },
	{ VIAL_FIELD("colour_number", ENUM, Thing, colour) },
	{ VIAL_FIELD("object", OBJECT, Thing, object) },
	{ VIAL_FIELD("made_at", TIME, Thing, made_at_ms) },
	{ .name = "twice", .type = VIAL_FIELD_VALUE, .get = twice },
};

static char *to_text(const Thing *thing)
{
	g_autoptr(json_t) object = vial_fields_write(fields, G_N_ELEMENTS(fields), thing);

	return vial_json_dump(object);
}

static gboolean from_text(const char *text, Thing *thing, GError **error)
{
	g_autoptr(json_t) object = vial_json_parse(text, strlen(text), NULL);

	return vial_fields_read(fields, G_N_ELEMENTS(fields), object, thing, error);
}

static void clear(Thing *thing)
{
	g_free(thing->text);
	json_decref(thing->object);
	*thing = (Thing){ 0 };
}

static void test_writes_in_the_order_of_the_table_and_leaves_out_what_is_not_there(void)
{
	Thing thing = { .text = (char *)"a", .number = 21, .share = 0.5, .is_set = TRUE, .colour = GREEN, .object = json_object(), .made_at_ms = 1 };
	g_autofree char *whole = to_text(&thing), *bare = to_text(&(Thing){ 0 });

	g_assert_cmpstr(whole, ==,
	                "{\"text\":\"a\",\"number\":21,\"share\":0.5,\"is_set\":true,\"colour\":\"green\",\"colour_number\":1,\"object\":{},"
	                "\"made_at\":\"1970-01-01T00:00:00.001Z\",\"twice\":42}");
	g_assert_cmpstr(bare, ==, "{\"number\":0,\"share\":0.0,\"is_set\":false,\"colour\":\"red\",\"colour_number\":0}");
	json_decref(thing.object);
}

static void test_reads_back_what_it_wrote(void)
{
	Thing thing = { .text = g_strdup("before"), .object = json_object() };
	const char *text = "{\"text\":\"a\",\"number\":-3,\"share\":2,\"is_set\":true,\"colour\":\"green\",\"object\":{\"k\":1}}";
	g_autoptr(GError) error = NULL;

	g_assert_true(from_text(text, &thing, &error));
	g_assert_cmpstr(thing.text, ==, "a");
	g_assert_cmpint(thing.number, ==, -3);
	g_assert_cmpfloat(thing.share, ==, 2);
	g_assert_true(thing.is_set);
	g_assert_cmpint(thing.colour, ==, GREEN);
	g_assert_cmpuint(json_object_size(thing.object), ==, 1);
	clear(&thing);
}

static void test_refuses_what_is_missing_or_of_another_type(void)
{
	static const struct {
		const char *text, *word;
	} cases[] = {
		{ "{}", "text" },
		{ "[]", "text" },
		{ "{\"text\":1}", "text" },
		{ "{\"text\":\"\",\"number\":\"1\"}", "number" },
		{ "{\"text\":\"\",\"share\":\"1\"}", "share" },
		{ "{\"text\":\"\",\"is_set\":1}", "is_set" },
		{ "{\"text\":\"\",\"colour\":\"blue\"}", "colour" },
		{ "{\"text\":\"\",\"colour_number\":-1}", "colour_number" },
		{ "{\"text\":\"\",\"object\":[]}", "object" },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Thing thing = { 0 };
		g_autoptr(GError) error = NULL;

		g_assert_false(from_text(cases[i].text, &thing, &error));
		g_assert_error(error, VIAL_ERROR, VIAL_ERROR_INVALID);
		g_assert_nonnull(strstr(error->message, cases[i].word));
		clear(&thing);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/json-fields/writes-in-order", test_writes_in_the_order_of_the_table_and_leaves_out_what_is_not_there);
	g_test_add_func("/json-fields/reads-back", test_reads_back_what_it_wrote);
	g_test_add_func("/json-fields/refuses", test_refuses_what_is_missing_or_of_another_type);
	return g_test_run();
}
