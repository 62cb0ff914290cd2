/* SPDX-License-Identifier: Apache-2.0 */
/* Two passes: what is kept is listed with its cut lengths, still borrowed; then it is copied into a block of the size they come to. */
#include "telemetry/span_record.h"

#include <string.h>

#define ERROR_TYPE_KEY "error.type"
/* The last moment whose nanoseconds fit into 63 bits: the year 2262. */
#define MAX_TIME_US (G_MAXINT64 / 1000)

typedef struct {
	VialSpanAttribute attributes[VIAL_SPAN_MAX_ATTRIBUTES];
	guint n_attributes;
	guint n_dropped;
	gsize text_bytes; /* of all keys and texts so far */
} Draft;

static VialSpanText text_of(const char *at)
{
	return (VialSpanText){ .at = at, .length = at ? strlen(at) : 0 };
}

/* At most max_bytes of it, not ending within a character. */
static VialSpanText cut(VialSpanText text, gsize max_bytes)
{
	if (text.length <= max_bytes)
		return text;
	gsize end = max_bytes;
	while (end > 0 && max_bytes - end < 3 && ((guint8)text.at[end] & 0xc0) == 0x80)
		end--;
	text.length = end;
	return text;
}

static void keep(Draft *draft, VialSpanAttribute attribute)
{
	gsize bytes;

	attribute.text = cut(attribute.text, VIAL_SPAN_TEXT_MAX_BYTES);
	bytes = attribute.key.length + attribute.text.length;
	if (draft->n_attributes == VIAL_SPAN_MAX_ATTRIBUTES || attribute.key.length == 0 || attribute.key.length > VIAL_SPAN_KEY_MAX_BYTES ||
	    draft->text_bytes + bytes > VIAL_SPAN_ATTRIBUTES_MAX_BYTES) {
		draft->n_dropped++;
		return;
	}
	draft->attributes[draft->n_attributes++] = attribute;
	draft->text_bytes += bytes;
}

static void keep_value(Draft *draft, const char *key, const json_t *value)
{
	VialSpanAttribute attribute = { .key = text_of(key), .type = json_typeof(value) };

	switch (attribute.type) {
	case JSON_STRING:
		attribute.text = (VialSpanText){ .at = json_string_value(value), .length = json_string_length(value) };
		break;
	case JSON_INTEGER:
		attribute.integer = json_integer_value(value);
		break;
	case JSON_REAL:
		attribute.real = json_real_value(value);
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		break;
	case JSON_NULL:
		return; /* says as much as its absence */
	default:
		draft->n_dropped++;
		return;
	}
	keep(draft, attribute);
}

static void draft_attributes(Draft *draft, const VialSpan *span)
{
	const char *error_type = span->is_error && span->error_type && *span->error_type ? span->error_type : NULL;
	const char *key;
	json_t *value;

	/* First, so that nothing can crowd it out. */
	if (error_type)
		keep(draft, (VialSpanAttribute){ .key = text_of(ERROR_TYPE_KEY), .type = JSON_STRING, .text = text_of(error_type) });
	json_object_foreach ((json_t *)span->attributes, key, value)
		if (!error_type || strcmp(key, ERROR_TYPE_KEY) != 0)
			keep_value(draft, key, value);
}

static VialSpanText copy(char **place, VialSpanText text)
{
	VialSpanText copied = { .at = *place, .length = text.length };

	if (text.length > 0)
		memcpy(*place, text.at, text.length);
	*place += text.length;
	return copied;
}

static void copy_ids(VialSpanRecord *record, const VialSpan *span)
{
	gboolean has_trace = vial_trace_hex_is_valid(span->trace_id, VIAL_TRACE_ID_LENGTH);

	if (has_trace)
		memcpy(record->trace_id, span->trace_id, sizeof(record->trace_id));
	else
		vial_trace_id_fill(record->trace_id);
	if (vial_trace_hex_is_valid(span->span_id, VIAL_SPAN_ID_LENGTH))
		memcpy(record->span_id, span->span_id, sizeof(record->span_id));
	else
		vial_span_id_fill(record->span_id);
	if (has_trace && vial_trace_hex_is_valid(span->parent_span_id, VIAL_SPAN_ID_LENGTH))
		memcpy(record->parent_span_id, span->parent_span_id, sizeof(record->parent_span_id));
	else
		record->parent_span_id[0] = '\0';
}

VialSpanRecord *vial_span_record_new(const VialSpan *span)
{
	VialSpanText name = cut(text_of(span->name), VIAL_SPAN_NAME_MAX_BYTES);
	VialSpanText status_message = cut(text_of(span->is_error ? span->status_message : NULL), VIAL_SPAN_TEXT_MAX_BYTES);
	Draft draft;

	draft.n_attributes = draft.n_dropped = 0; /* not the five kilobytes behind them */
	draft.text_bytes = 0;
	draft_attributes(&draft, span);
	gsize head = sizeof(VialSpanRecord) + draft.n_attributes * sizeof(VialSpanAttribute);
	gsize size = head + name.length + status_message.length + draft.text_bytes;
	VialSpanRecord *record = g_malloc(size);
	char *place = (char *)record + head;

	record->next = NULL;
	record->added_us = 0;
	record->size_bytes = size;
	copy_ids(record, span);
	record->started_us = CLAMP(span->started_us, 0, MAX_TIME_US);
	record->ended_us = CLAMP(span->ended_us, record->started_us, MAX_TIME_US);
	record->is_error = span->is_error;
	record->name = copy(&place, name);
	record->status_message = copy(&place, status_message);
	record->n_dropped_attributes = draft.n_dropped;
	record->n_attributes = draft.n_attributes;
	for (guint i = 0; i < draft.n_attributes; i++) {
		record->attributes[i] = draft.attributes[i];
		record->attributes[i].key = copy(&place, draft.attributes[i].key);
		record->attributes[i].text = copy(&place, draft.attributes[i].text);
	}
	return record;
}
