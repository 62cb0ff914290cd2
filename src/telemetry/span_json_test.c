/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a span and the text that becomes of it; tests/telemetry holds that text against the schema. */
#include "telemetry/span_json.h"

#include <string.h>

#include "util/json.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"
#define PARENT "00f067aa0ba902b7"

/* The span as the collector would read it; new. */
static json_t *encode(const VialSpan *span)
{
	g_autofree VialSpanRecord *record = vial_span_record_new(span);
	g_autoptr(GString) body = vial_span_json_encode("{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[", record);
	g_autoptr(GError) error = NULL;
	g_autoptr(json_t) root = vial_json_parse_object(body->str, body->len, &error);
	json_t *encoded = NULL;

	g_assert_no_error(error);
	g_assert_cmpint(json_unpack(root, "{s:[{s:[{s:[O]}]}]}", "resourceSpans", "scopeSpans", "spans", &encoded), ==, 0);
	return encoded;
}

static const char *text(const json_t *object, const char *field)
{
	return json_string_value(json_object_get(object, field));
}

static json_t *attribute(const json_t *encoded, const char *key)
{
	json_t *one;
	size_t i;

	json_array_foreach (json_object_get(encoded, "attributes"), i, one)
		if (g_strcmp0(text(one, "key"), key) == 0)
			return json_object_get(one, "value");
	return NULL;
}

static guint dropped_attributes(const json_t *encoded)
{
	return (guint)json_integer_value(json_object_get(encoded, "droppedAttributesCount"));
}

static void test_a_whole_span(void)
{
	g_autoptr(json_t) attributes =
		json_pack("{s:s, s:I, s:f, s:b, s:b, s:n}", "s", "a\"b\\c\n\x01\xc3\xa9", "i", (json_int_t)-7, "r", 0.1, "t", 1, "f", 0, "n");
	VialSpan span = { .name = "run",
		          .trace_id = TRACE,
		          .span_id = SPAN,
		          .parent_span_id = PARENT,
		          .started_us = 1700000000000001,
		          .ended_us = 1700000000000002,
		          .attributes = attributes };
	g_autofree VialSpanRecord *record = vial_span_record_new(&span);
	g_autoptr(GString) body = vial_span_json_encode("", record);

	g_assert_cmpstr(body->str, ==,
	                "{\"traceId\":\"" TRACE "\",\"spanId\":\"" SPAN "\",\"parentSpanId\":\"" PARENT "\",\"name\":\"run\",\"kind\":2,"
	                "\"startTimeUnixNano\":\"1700000000000001000\",\"endTimeUnixNano\":\"1700000000000002000\",\"attributes\":["
	                "{\"key\":\"s\",\"value\":{\"stringValue\":\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa9\"}},"
	                "{\"key\":\"i\",\"value\":{\"intValue\":\"-7\"}},{\"key\":\"r\",\"value\":{\"doubleValue\":0.10000000000000001}},"
	                "{\"key\":\"t\",\"value\":{\"boolValue\":true}},{\"key\":\"f\",\"value\":{\"boolValue\":false}}]}]}]}]}");
}

static void test_errors(void)
{
	g_autoptr(json_t) attributes = json_pack("{s:s}", "error.type", "the caller's");
	VialSpan span = { .name = "run", .is_error = TRUE, .error_type = "timeout", .status_message = "too late", .attributes = attributes };
	g_autoptr(json_t) failed = encode(&span);

	g_assert_cmpint(json_integer_value(json_object_get(json_object_get(failed, "status"), "code")), ==, 2);
	g_assert_cmpstr(text(json_object_get(failed, "status"), "message"), ==, "too late");
	g_assert_cmpuint(json_array_size(json_object_get(failed, "attributes")), ==, 1); /* keys are unique */
	g_assert_cmpstr(text(attribute(failed, "error.type"), "stringValue"), ==, "timeout");
	span.is_error = FALSE;
	g_autoptr(json_t) fine = encode(&span);
	g_assert_null(json_object_get(fine, "status"));
	g_assert_cmpstr(text(attribute(fine, "error.type"), "stringValue"), ==, "the caller's");
}

static void test_ids_are_made_where_there_are_none(void)
{
	static const char *const wrong[] = { NULL, "", "00000000000000000000000000000000", "0AF7651916CD43DD8448EB211C80319C", TRACE "0", SPAN };

	for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
		VialSpan span = { .name = "run", .trace_id = wrong[i], .span_id = wrong[i] == NULL ? NULL : "0", .parent_span_id = PARENT };
		g_autoptr(json_t) encoded = encode(&span);

		g_assert_true(vial_trace_hex_is_valid(text(encoded, "traceId"), VIAL_TRACE_ID_LENGTH));
		g_assert_true(vial_trace_hex_is_valid(text(encoded, "spanId"), VIAL_SPAN_ID_LENGTH));
		g_assert_cmpstr(text(encoded, "traceId"), !=, wrong[i]);
		g_assert_null(json_object_get(encoded, "parentSpanId")); /* of which trace? */
	}
}

static void test_times_that_cannot_be(void)
{
	VialSpan backwards = { .name = "run", .started_us = 5, .ended_us = 3 };
	VialSpan absurd = { .name = "run", .started_us = -1, .ended_us = G_MAXINT64 };
	g_autoptr(json_t) first = encode(&backwards), second = encode(&absurd);

	g_assert_cmpstr(text(first, "endTimeUnixNano"), ==, "5000");
	g_assert_cmpstr(text(second, "startTimeUnixNano"), ==, "0");
	g_assert_cmpstr(text(second, "endTimeUnixNano"), ==, "9223372036854775000");
}

static void test_long_texts_are_cut_between_characters(void)
{
	g_autofree char *plain = g_strnfill(VIAL_SPAN_TEXT_MAX_BYTES + 100, 'x'), *key = g_strnfill(VIAL_SPAN_KEY_MAX_BYTES + 1, 'k');
	g_autoptr(GString) wide = g_string_new("x"); /* so that the limit falls within a character */

	while (wide->len < VIAL_SPAN_TEXT_MAX_BYTES + 100)
		g_string_append(wide, "\xf0\x9f\x90\x9b");
	g_autoptr(json_t) attributes = json_pack("{s:s, s:s, s:s, s:s}", "plain", plain, "wide", wide->str, key, "v", "", "v");
	VialSpan span = { .name = plain, .attributes = attributes };
	g_autoptr(json_t) encoded = encode(&span);

	g_assert_cmpuint(strlen(text(encoded, "name")), ==, VIAL_SPAN_NAME_MAX_BYTES);
	g_assert_cmpuint(strlen(text(attribute(encoded, "plain"), "stringValue")), ==, VIAL_SPAN_TEXT_MAX_BYTES);
	g_assert_cmpuint(strlen(text(attribute(encoded, "wide"), "stringValue")), ==, VIAL_SPAN_TEXT_MAX_BYTES - 3);
	g_assert_true(g_str_has_prefix(wide->str, text(attribute(encoded, "wide"), "stringValue")));
	g_assert_cmpuint(dropped_attributes(encoded), ==, 2);
}

static void test_attributes_beyond_the_limits_are_counted(void)
{
	g_autofree char *large = g_strnfill(VIAL_SPAN_TEXT_MAX_BYTES, 'x');
	g_autoptr(json_t) many = json_object(), much = json_object(), odd = json_pack("{s:[], s:{}, s:n}", "a", "o", "n");

	for (guint i = 0; i < VIAL_SPAN_MAX_ATTRIBUTES + 10; i++) {
		g_autofree char *key = g_strdup_printf("key.%u", i);
		json_object_set_new(many, key, json_integer(i));
		json_object_set_new(much, key, json_string(large));
	}
	g_autoptr(json_t) first = encode(&(VialSpan){ .name = "run", .attributes = many });
	g_autoptr(json_t) second = encode(&(VialSpan){ .name = "run", .attributes = much });
	g_autoptr(json_t) third = encode(&(VialSpan){ .name = "run", .attributes = odd });
	g_assert_cmpuint(json_array_size(json_object_get(first, "attributes")), ==, VIAL_SPAN_MAX_ATTRIBUTES);
	g_assert_cmpuint(dropped_attributes(first), ==, 10);
	g_assert_cmpuint(json_array_size(json_object_get(second, "attributes")), ==, 3);
	g_assert_cmpuint(dropped_attributes(second), ==, VIAL_SPAN_MAX_ATTRIBUTES + 7);
	g_assert_cmpuint(dropped_attributes(third), ==, 2);
}

static void test_what_is_not_utf8_is_replaced(void)
{
	VialSpan span = { .name = "a\xff\xed\xa0\x80z\xc3", .is_error = TRUE, .status_message = "\x80" };
	g_autoptr(json_t) encoded = encode(&span);

	g_assert_true(g_str_has_prefix(text(encoded, "name"), "a\xef\xbf\xbd"));
	g_assert_true(g_str_has_suffix(text(encoded, "name"), "z\xef\xbf\xbd"));
	g_assert_cmpstr(text(json_object_get(encoded, "status"), "message"), ==, "\xef\xbf\xbd");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/span-json/a-whole-span", test_a_whole_span);
	g_test_add_func("/span-json/errors", test_errors);
	g_test_add_func("/span-json/ids-are-made-where-there-are-none", test_ids_are_made_where_there_are_none);
	g_test_add_func("/span-json/times-that-cannot-be", test_times_that_cannot_be);
	g_test_add_func("/span-json/long-texts-are-cut-between-characters", test_long_texts_are_cut_between_characters);
	g_test_add_func("/span-json/attributes-beyond-the-limits-are-counted", test_attributes_beyond_the_limits_are_counted);
	g_test_add_func("/span-json/what-is-not-utf8-is-replaced", test_what_is_not_utf8_is_replaced);
	return g_test_run();
}
