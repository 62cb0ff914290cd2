/* SPDX-License-Identifier: Apache-2.0 */
/* Written by hand rather than by jansson: a batch is a thousand small objects that would be made only to be read once. */
#include "telemetry/span_json.h"

#include <string.h>

#include "util/utf8.h"

/* From opentelemetry/proto/trace/v1/trace.proto. */
#define SPAN_KIND_SERVER 2
#define STATUS_CODE_ERROR 2

#define SCOPE_NAME "vial"
/* What an ordinary span of some attributes comes to; only where the buffer starts. */
#define USUAL_SPAN_BYTES 768

/* Of valid UTF-8. Runs that need no escaping, which is nearly all, are appended whole. */
static void append_escaped(GString *out, const char *at, gsize length)
{
	const char *end = at + length, *start = at;

	for (; at < end; at++) {
		guint8 c = (guint8)*at;
		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		g_string_append_len(out, start, at - start);
		start = at + 1;
		if (c >= 0x20)
			g_string_append_printf(out, "\\%c", c);
		else
			g_string_append_printf(out, "\\u%04x", c);
	}
	g_string_append_len(out, start, end - start);
}

static void append_string(GString *out, VialSpanText text)
{
	g_string_append_c(out, '"');
	if (g_utf8_validate_len(text.at, text.length, NULL)) {
		append_escaped(out, text.at, text.length);
	} else {
		g_autoptr(GString) valid = g_string_sized_new(text.length + 16);
		VialUtf8 state = { 0 };

		vial_utf8_feed(&state, text.at, text.length, valid);
		vial_utf8_finish(&state, valid);
		append_escaped(out, valid->str, valid->len);
	}
	g_string_append_c(out, '"');
}

static void append_value(GString *out, const VialSpanAttribute *attribute)
{
	char number[G_ASCII_DTOSTR_BUF_SIZE];

	switch (attribute->type) {
	case JSON_STRING:
		g_string_append(out, "{\"stringValue\":");
		append_string(out, attribute->text);
		g_string_append_c(out, '}');
		break;
	case JSON_INTEGER:
		g_string_append_printf(out, "{\"intValue\":\"%" G_GINT64_FORMAT "\"}", attribute->integer);
		break;
	case JSON_REAL: /* always finite: jansson takes no other */
		g_string_append_printf(out, "{\"doubleValue\":%s}", g_ascii_dtostr(number, sizeof(number), attribute->real));
		break;
	default:
		g_string_append(out, attribute->type == JSON_TRUE ? "{\"boolValue\":true}" : "{\"boolValue\":false}");
	}
}

static void append_attributes(GString *out, const VialSpanAttribute *attributes, gsize n)
{
	g_string_append(out, "\"attributes\":[");
	for (gsize i = 0; i < n; i++) {
		g_string_append(out, i > 0 ? ",{\"key\":" : "{\"key\":");
		append_string(out, attributes[i].key);
		g_string_append(out, ",\"value\":");
		append_value(out, &attributes[i]);
		g_string_append_c(out, '}');
	}
	g_string_append_c(out, ']');
}

static void append_status(GString *out, const VialSpanRecord *record)
{
	/* Unset is the right status of what went well; OK is for an application that overrules its instrumentation. */
	if (!record->is_error)
		return;
	g_string_append_printf(out, ",\"status\":{\"code\":%d", STATUS_CODE_ERROR);
	if (record->status_message.length > 0) {
		g_string_append(out, ",\"message\":");
		append_string(out, record->status_message);
	}
	g_string_append_c(out, '}');
}

static void append_span(GString *out, const VialSpanRecord *record)
{
	g_string_append_printf(out, "{\"traceId\":\"%s\",\"spanId\":\"%s\"", record->trace_id, record->span_id);
	if (record->parent_span_id[0])
		g_string_append_printf(out, ",\"parentSpanId\":\"%s\"", record->parent_span_id);
	g_string_append(out, ",\"name\":");
	append_string(out, record->name);
	g_string_append_printf(out, ",\"kind\":%d,\"startTimeUnixNano\":\"%" G_GINT64_FORMAT "\",\"endTimeUnixNano\":\"%" G_GINT64_FORMAT "\",",
	                       SPAN_KIND_SERVER, record->started_us * 1000, record->ended_us * 1000);
	append_attributes(out, record->attributes, record->n_attributes);
	if (record->n_dropped_attributes > 0)
		g_string_append_printf(out, ",\"droppedAttributesCount\":%u", record->n_dropped_attributes);
	append_status(out, record);
	g_string_append_c(out, '}');
}

static VialSpanAttribute text_attribute(const char *key, const char *text)
{
	return (VialSpanAttribute){ .key = { key, strlen(key) }, .type = JSON_STRING, .text = { text, strlen(text) } };
}

char *vial_span_json_head(const char *service_name, const char *instance_id, const char *host_name)
{
	const VialSpanAttribute resource[] = {
		text_attribute("service.name", service_name),
		text_attribute("service.version", VIAL_VERSION),
		text_attribute("service.instance.id", instance_id),
		text_attribute("host.name", host_name),
	};
	GString *out = g_string_new("{\"resourceSpans\":[{\"resource\":{");

	append_attributes(out, resource, G_N_ELEMENTS(resource));
	g_string_append(out, "},\"scopeSpans\":[{\"scope\":{\"name\":\"" SCOPE_NAME "\",\"version\":\"" VIAL_VERSION "\"},\"spans\":[");
	return g_string_free(out, FALSE);
}

GString *vial_span_json_encode(const char *head, const VialSpanRecord *records)
{
	gsize n = 0;

	for (const VialSpanRecord *record = records; record; record = record->next)
		n++;
	GString *out = g_string_sized_new(strlen(head) + n * USUAL_SPAN_BYTES);
	g_string_append(out, head);
	for (const VialSpanRecord *record = records; record; record = record->next) {
		if (record != records)
			g_string_append_c(out, ',');
		append_span(out, record);
	}
	g_string_append(out, "]}]}]}");
	return out;
}
