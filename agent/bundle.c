/* SPDX-License-Identifier: Apache-2.0 */
/* See bundle.h. Depth and number of values are bounded before (kernelmsg.h), so the walk may recurse. */
#include "bundle.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TEXT "text/plain"

/* The characters of a type's and a subtype's name (RFC 6838, 4.2). */
static size_t name_length(const char *text)
{
	size_t length = 0;

	while (isalnum((unsigned char)text[length]) || (text[length] && strchr("!#$&-^_.+", text[length])))
		length++;
	return length;
}

bool vial_bundle_is_mime(const char *text)
{
	size_t length = name_length(text);

	if (strlen(text) > VIAL_BUNDLE_MIME_BYTES || length == 0 || text[length] != '/')
		return false;
	text += length + 1;
	length = name_length(text);
	if (length == 0)
		return false;
	text += length;
	if (*text && *text != ';')
		return false;
	while (*text >= ' ' && *text <= '~')
		text++;
	return *text == '\0';
}

static bool has_good_keys(json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_array(value)) {
		json_array_foreach (value, i, item) {
			if (!has_good_keys(item))
				return false;
		}
	} else if (json_is_object(value)) {
		if (json_object_size(value) > VIAL_BUNDLE_MAX_KEYS)
			return false;
		json_object_foreach (value, key, item) {
			if (strlen(key) > VIAL_BUNDLE_KEY_BYTES || !has_good_keys(item))
				return false;
		}
	}
	return true;
}

/* NULL when the representation may stay. The name itself is not repeated: it may be what is wrong. */
static const char *find_problem(const char *mime, json_t *value)
{
	if (!vial_bundle_is_mime(mime))
		return "its MIME type is not one";
	if (strcmp(mime, TEXT) == 0 && !json_is_string(value))
		return "its text is no text";
	return has_good_keys(value) ? NULL : "it has too many names, or too long ones";
}

static void add_note(json_t *bundle, unsigned left_out, const char *problem)
{
	const char *text = json_string_value(json_object_get(bundle, TEXT));
	char note[160];

	snprintf(note, sizeof(note), "[left out: %u of this result's representations; %s]", left_out, problem);
	json_object_set_new(bundle, TEXT, text ? json_sprintf("%s\n%s", text, note) : json_string(note));
}

json_t *vial_bundle_check(json_t *data, bool *out_is_cut)
{
	json_t *bundle = NULL, *value;
	const char *mime, *problem = NULL;
	unsigned left_out = 0;

	json_object_foreach (data, mime, value)
		left_out += find_problem(mime, value) != NULL;
	*out_is_cut = left_out > 0 || json_object_size(data) > VIAL_BUNDLE_MAX_TYPES;
	if (!*out_is_cut)
		return json_incref(data);
	bundle = json_object();
	left_out = 0;
	json_object_foreach (data, mime, value) {
		const char *found = json_object_size(bundle) < VIAL_BUNDLE_MAX_TYPES ? find_problem(mime, value) : "there are too many";

		if (!found)
			json_object_set(bundle, mime, value);
		left_out += found != NULL;
		problem = found ? found : problem;
	}
	if (bundle)
		add_note(bundle, left_out, problem);
	return bundle;
}

json_t *vial_bundle_note(const char *problem)
{
	return json_pack("{s:o}", TEXT, json_sprintf("[a result was left out: %s]", problem));
}
