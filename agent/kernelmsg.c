/* SPDX-License-Identifier: Apache-2.0 */
/* See kernelmsg.h. A new message is a line of `shapes`. */
#include "kernelmsg.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "text.h"

#define MAX_FIELDS 5

enum kind {
	KIND_END,
	KIND_ID,     /* a string that is only compared */
	KIND_NAME,   /* a string of one line: cut, control characters replaced */
	KIND_TEXT,   /* a string that is cut */
	KIND_OBJECT, /* bundle.c looks into it */
	KIND_BOOL,
	KIND_INTEGER,
	KIND_NUMBER, /* from 0 to `limit` */
};

struct field {
	const char *name;
	enum kind kind;
	bool is_required;
	json_int_t limit;
};

struct shape {
	const char *name;
	enum vial_message_type type;
	struct field fields[MAX_FIELDS + 1];
};

static const struct shape shapes[] = {
	{ "ready", VIAL_MESSAGE_READY, { { 0 } } },
	{ "result",
	  VIAL_MESSAGE_RESULT,
	  { { "id", KIND_ID, true, 0 },
	    { "data", KIND_OBJECT, true, 0 },
	    { "is_main_result", KIND_BOOL, false, 0 },
	    { "display_id", KIND_NAME, false, VIAL_DISPLAY_ID_BYTES },
	    { "is_update", KIND_BOOL, false, 0 } } },
	{ "error",
	  VIAL_MESSAGE_ERROR,
	  { { "id", KIND_ID, true, 0 },
	    { "name", KIND_NAME, true, VIAL_ERROR_NAME_BYTES },
	    { "value", KIND_TEXT, true, VIAL_ERROR_TEXT_BYTES },
	    { "traceback", KIND_TEXT, true, VIAL_ERROR_TEXT_BYTES } } },
	{ "ending", VIAL_MESSAGE_ENDING, { { "id", KIND_ID, true, 0 } } },
	{ "done",
	  VIAL_MESSAGE_DONE,
	  { { "id", KIND_ID, true, 0 },
	    { "execution_count", KIND_INTEGER, false, 0 },
	    { "is_truncated", KIND_BOOL, false, 0 },
	    { "exit_status", KIND_INTEGER, false, 0 },
	    { "exit_code", KIND_INTEGER, false, 0 } } },
	{ "sync", VIAL_MESSAGE_SYNC, { { "number", KIND_NUMBER, true, INT_MAX } } },
	{ "reseeded", VIAL_MESSAGE_RESEEDED, { { "number", KIND_NUMBER, true, UINT_MAX }, { "is_incomplete", KIND_BOOL, false, 0 } } },
	{ "touched", VIAL_MESSAGE_TOUCHED, { { 0 } } },
	{ "clear", VIAL_MESSAGE_CLEAR, { { "id", KIND_ID, true, 0 }, { "wait", KIND_BOOL, false, 0 } } },
};

/* --- before parsing --- */

/* NULL, or what is too much of it. Brackets and commas outside strings are counted; whether it is JSON at all is the parser's affair. */
static const char *scan(const char *text, size_t size_bytes)
{
	unsigned depth = 0, values = 0;
	bool is_in_string = false;

	for (size_t i = 0; i < size_bytes; i++) {
		char c = text[i];

		if (is_in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				is_in_string = false;
			continue;
		}
		if (c == '"')
			is_in_string = true;
		else if ((c == '{' || c == '[') && ++depth > VIAL_MESSAGE_MAX_DEPTH)
			return "it is nested too deeply";
		else if ((c == '}' || c == ']') && depth > 0)
			depth--;
		if ((c == ',' || c == '{' || c == '[') && ++values > VIAL_MESSAGE_MAX_VALUES)
			return "it has too many values";
	}
	return NULL;
}

/* --- fields --- */

static void put_text(json_t *message, const char *name, json_t *text)
{
	/* Out of memory: an empty text is still a text. */
	json_object_set_new(message, name, text ? text : json_string(""));
}

static void cut_text(json_t *message, const struct field *field, json_t *value)
{
	size_t size = json_string_length(value), limit = (size_t)field->limit;

	if (size > limit)
		put_text(message, field->name, vial_json_text_cut(json_string_value(value), size, limit));
}

static void clean_name(json_t *message, const struct field *field, json_t *value)
{
	size_t size = json_string_length(value), limit = (size_t)field->limit;

	if (size > limit || !vial_text_is_printable(json_string_value(value)))
		put_text(message, field->name, vial_json_name(json_string_value(value), limit));
}

static int check_field(json_t *message, const struct field *field)
{
	json_t *value = json_object_get(message, field->name);
	bool is_good = false;

	if (!value)
		return field->is_required ? -EPROTO : 0;
	switch (field->kind) {
	case KIND_ID:
	case KIND_NAME:
	case KIND_TEXT:
		is_good = json_is_string(value);
		break;
	case KIND_OBJECT:
		is_good = json_is_object(value);
		break;
	case KIND_BOOL:
		is_good = json_is_boolean(value);
		break;
	case KIND_INTEGER:
		is_good = json_is_integer(value);
		break;
	case KIND_NUMBER:
		is_good = json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= field->limit;
		break;
	case KIND_END:
		break;
	}
	if (!is_good)
		return -EPROTO;
	if (field->kind == KIND_TEXT)
		cut_text(message, field, value);
	else if (field->kind == KIND_NAME)
		clean_name(message, field, value);
	return 0;
}

static const struct shape *find_shape(json_t *message)
{
	const char *name = json_string_value(json_object_get(message, "type"));

	for (size_t i = 0; name && i < sizeof(shapes) / sizeof(*shapes); i++) {
		if (strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	}
	return NULL;
}

int vial_message_decode(const char *text, size_t size_bytes, struct vial_message *out_message)
{
	const char *problem = scan(text, size_bytes);
	const struct shape *shape;
	json_t *json;

	if (problem) {
		*out_message = (struct vial_message){ .type = VIAL_MESSAGE_REFUSED, .problem = problem };
		return 0;
	}
	json = json_loadb(text, size_bytes, 0, NULL);
	shape = find_shape(json);
	if (!shape) {
		json_decref(json);
		return -EPROTO;
	}
	for (const struct field *field = shape->fields; field->kind != KIND_END; field++) {
		if (check_field(json, field) < 0) {
			json_decref(json);
			return -EPROTO;
		}
	}
	*out_message = (struct vial_message){ .type = shape->type, .json = json };
	return 0;
}

void vial_message_clear(struct vial_message *message)
{
	json_decref(message->json);
	*message = (struct vial_message){ 0 };
}
