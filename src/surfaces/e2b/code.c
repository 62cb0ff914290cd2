/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/e2b/code.h"

#include <string.h>

#include "surfaces/e2b/data.h"
#include "util/json.h"

static const char *const kinds[][2] = {
	{ "text/plain", "text" },
	{ "text/html", "html" },
	{ "text/markdown", "markdown" },
	{ "image/svg+xml", "svg" },
	{ "image/png", "png" },
	{ "image/jpeg", "jpeg" },
	{ "application/pdf", "pdf" },
	{ "text/latex", "latex" },
	{ "application/json", "json" },
	{ "application/javascript", "javascript" },
	{ "application/vnd.vial.data+json", "data" },
	{ "application/vnd.vial.chart+json", "chart" },
};

static const char *kind_of(const char *type)
{
	for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
		if (strcmp(kinds[i][0], type) == 0)
			return kinds[i][1];
	return NULL;
}

/* Kinds of charts that the SDKs do not know, as the nearest that they do; the rest has no kind for them and all its fields. */
static const char *chart_kind(const char *kind)
{
	static const char *const near[][2] = { { "errorbar", "line" }, { "histogram", "bar" } };
	static const char *const known[] = { "line", "scatter", "bar", "pie", "box_and_whisker", "superchart", NULL };

	for (gsize i = 0; i < G_N_ELEMENTS(near); i++)
		if (strcmp(near[i][0], kind) == 0)
			return near[i][1];
	return g_strv_contains(known, kind) ? kind : "unknown";
}

/* The same with every number a float, as the SDKs declare them: Python's json makes an int of one without a point. */
static json_t *with_floats(const json_t *value)
{
	json_t *json, *inner;
	const char *name;
	gsize i;

	if (json_is_integer(value))
		return json_real((double)json_integer_value(value));
	if (json_is_array(value)) {
		json = json_array();
		json_array_foreach ((json_t *)value, i, inner)
			json_array_append_new(json, with_floats(inner));
		return json;
	}
	if (!json_is_object(value))
		return json_incref((json_t *)value);
	json = json_object();
	json_object_foreach ((json_t *)value, name, inner)
		json_object_set_new(json, name, with_floats(inner));
	return json;
}

static void swap(json_t *json, const char *one, const char *other)
{
	json_t *kept = json_incref(json_object_get(json, one));

	json_object_set(json, one, json_object_get(json, other));
	json_object_set_new(json, other, kept);
}

static json_t *chart_json(const json_t *chart)
{
	const char *kind = json_string_value(json_object_get(chart, "type"));
	json_t *json, *elements, *element;
	gsize i;

	if (kind && strcmp(kind, "superchart") == 0) {
		json = json_copy((json_t *)chart);
		elements = json_array();
		json_array_foreach (json_object_get(chart, "elements"), i, element)
			json_array_append_new(elements, chart_json(element));
		json_object_set_new(json, "elements", elements);
		return json;
	}
	if (!kind || strcmp(chart_kind(kind), "unknown") == 0)
		json = json_copy((json_t *)chart);
	else
		json = with_floats(chart);
	if (kind && strcmp(chart_kind(kind), kind) != 0) {
		json_object_set_new(json, "type", json_string(chart_kind(kind)));
		json_object_set_new(json, "vial_type", json_string(kind));
	}
	/* The SDKs' charts do not lie: x is what bars and boxes stand for. */
	if (g_strcmp0(json_string_value(json_object_get(json, "orientation")), "horizontal") == 0) {
		swap(json, "x_label", "y_label");
		swap(json, "x_unit", "y_unit");
	}
	return json;
}

/* A string is shown as it is, not as Python writes it. */
static json_t *without_quotes(json_t *value)
{
	const char *text = json_string_value(value);
	gsize size = json_string_length(value);

	if (size >= 2 && (text[0] == '\'' || text[0] == '"') && text[size - 1] == text[0])
		return json_stringn(text + 1, size - 2);
	return json_incref(value);
}

json_t *vial_e2b_result_json(const json_t *bundle, gboolean is_main_result)
{
	json_t *json = json_pack("{s:s, s:b}", "type", "result", "is_main_result", is_main_result), *extra = json_object(), *value;
	const char *type;

	json_object_foreach ((json_t *)bundle, type, value) {
		const char *kind = kind_of(type);

		if (!kind)
			json_object_set(extra, type, value);
		else if (strcmp(kind, "text") == 0)
			json_object_set_new(json, kind, without_quotes(value));
		else if (strcmp(kind, "chart") == 0)
			json_object_set_new(json, kind, chart_json(value));
		else
			json_object_set(json, kind, value);
	}
	if (json_object_size(extra) > 0)
		json_object_set(json, "extra", extra);
	json_decref(extra);
	return json;
}

const char *vial_e2b_language(const char *language)
{
	if (g_strcmp0(language, "js") == 0)
		return "javascript";
	if (g_strcmp0(language, "ts") == 0)
		return "typescript";
	return language;
}

void vial_e2b_code_reply_error(VialRequest *request, const GError *error)
{
	g_autofree char *sentence = g_utf8_make_valid(error->message, -1);

	if (vial_e2b_is_gone(request))
		return vial_e2b_reply_gone(request);
	vial_request_reply_bytes(request, vial_error_http_status(error), "text/plain; charset=utf-8", g_bytes_new(sentence, strlen(sentence)));
}

void vial_e2b_code_fail(VialExchange *exchange, const GError *error)
{
	vial_e2b_code_reply_error(exchange->request, error);
	vial_exchange_end(exchange);
}
