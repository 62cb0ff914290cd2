/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: JSON from strangers. What is accepted keeps to the limits and survives being written and read again. */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static gsize depth_of(const json_t *value)
{
	gsize deepest = 0, i;
	json_t *child;
	const char *key;

	json_array_foreach (value, i, child)
		deepest = MAX(deepest, depth_of(child));
	json_object_foreach ((json_t *)value, key, child) {
		assert(g_utf8_validate(key, -1, NULL));
		deepest = MAX(deepest, depth_of(child));
	}
	if (json_is_string(value))
		assert(g_utf8_validate(json_string_value(value), (gssize)json_string_length(value), NULL));
	return deepest + (json_is_object(value) || json_is_array(value));
}

static void read_fields(const json_t *object)
{
	static const char *const choices[] = { "a", "b", NULL };
	const char *text = NULL;
	gint64 number = 0;
	double real = 0;
	gboolean flag = FALSE;
	json_t *inner = NULL;
	int choice = 0;

	if (vial_json_get_string(object, "s", VIAL_JSON_NONEMPTY, 8, &text, NULL) && text)
		assert(*text && strlen(text) <= 8);
	if (vial_json_get_int(object, "i", VIAL_JSON_REQUIRED, -5, 5, &number, NULL))
		assert(number >= -5 && number <= 5);
	if (vial_json_get_double(object, "d", 0, 0, 1, &real, NULL))
		assert(real >= 0 && real <= 1);
	vial_json_get_bool(object, "b", 0, &flag, NULL);
	vial_json_get_choice(object, "c", 0, choices, &choice, NULL);
	assert(choice == 0 || choice == 1);
	vial_json_get_string_map(object, "m", 0, 2, 2, 2, &inner, NULL);
	vial_json_get_string_array(object, "a", VIAL_JSON_NONEMPTY, 2, 2, &inner, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(json_t) value = vial_json_parse((const char *)bytes, size, &error);

	if (!value) {
		assert(error && g_utf8_validate(error->message, -1, NULL));
		return 0;
	}
	assert(depth_of(value) <= VIAL_JSON_MAX_DEPTH);
	g_autofree char *text = vial_json_dump(value);
	g_autoptr(json_t) again = vial_json_parse(text, strlen(text), NULL);
	assert(json_equal(value, again));
	if (json_is_object(value))
		read_fields(value);
	return 0;
}
