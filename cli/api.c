/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/output.h"

enum { SANDBOX_ID_SIZE = 20, PAGE_SIZE = 500, PAGES_MAX = 200 };

char *vial_api_path(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	GString *path = g_string_new("/v1");
	for (; *format; format++) {
		if (*format != '%') {
			g_string_append_c(path, *format);
			continue;
		}
		format++;
		if (*format == 's')
			g_string_append_uri_escaped(path, va_arg(args, const char *), NULL, FALSE);
		else if (*format == 'd')
			g_string_append_printf(path, "%d", va_arg(args, int));
		else
			g_string_append_c(path, *format);
	}
	va_end(args);
	return g_string_free(path, FALSE);
}

static gboolean parse_answer(VialHttpRequest *request, json_t **out_answer, GError **error)
{
	json_t *answer = NULL;
	if (request->answer->len > 0) {
		json_error_t problem;
		answer = json_loadb((const char *)request->answer->data, request->answer->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
		if (!answer && out_answer) {
			g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the answer to %s %s is not JSON: is it viald?", request->method,
			            request->path);
			return FALSE;
		}
	}
	if (out_answer)
		*out_answer = answer;
	else
		json_decref(answer);
	return TRUE;
}

static char *dump(const json_t *body, VialHttpRequest *request)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	request->body = text;
	request->body_size = text ? strlen(text) : 0;
	return text;
}

static gboolean call(VialCli *cli, const char *method, const char *path, json_t *body, long timeout_seconds, json_t **out_answer, GError **error)
{
	g_auto(VialHttpRequest) request = { .method = method, .path = path, .timeout_seconds = timeout_seconds };
	char *text = dump(body, &request);
	json_decref(body);
	gboolean is_ok = vial_http_perform(cli->http, &request, error) && parse_answer(&request, out_answer, error);
	free(text);
	return is_ok;
}

gboolean vial_api_call(VialCli *cli, const char *method, const char *path, json_t *body, json_t **out_answer, GError **error)
{
	return call(cli, method, path, body, VIAL_API_TIMEOUT_SECONDS, out_answer, error);
}

gboolean vial_api_run(VialCli *cli, const char *path, json_t *body, json_t **out_answer, GError **error)
{
	return call(cli, "POST", path, body, 0, out_answer, error);
}

static void call_batch(VialCli *cli, const char *method, char **paths, guint count, json_t **bodies, json_t **answers, GError **errors)
{
	g_autofree VialHttpRequest *requests = g_new0(VialHttpRequest, count);
	g_autofree VialHttpRequest **pointers = g_new0(VialHttpRequest *, count);
	g_autofree char **texts = g_new0(char *, count);
	for (guint i = 0; i < count; i++) {
		pointers[i] = &requests[i];
		requests[i].method = method;
		requests[i].path = paths[i];
		texts[i] = dump(bodies ? bodies[i] : NULL, &requests[i]);
	}
	vial_http_perform_all(cli->http, pointers, count);
	for (guint i = 0; i < count; i++) {
		if (requests[i].error)
			errors[i] = g_steal_pointer(&requests[i].error);
		else
			parse_answer(&requests[i], &answers[i], &errors[i]);
		vial_http_request_clear(&requests[i]);
		free(texts[i]);
	}
}

void vial_api_call_many(VialCli *cli, const char *method, char **paths, guint count, json_t **bodies, guint parallel, json_t **answers,
                        GError **errors)
{
	for (guint i = 0; i < count; i += parallel)
		call_batch(cli, method, paths + i, MIN(count - i, parallel), bodies ? bodies + i : NULL, answers + i, errors + i);
}

json_t *vial_api_list(const json_t *answer, const char *name)
{
	if (json_is_array(answer))
		return (json_t *)answer;
	json_t *list = json_object_get(answer, name);
	return json_is_array(list) ? list : json_object_get(answer, "items");
}

/* A session's id is what its caller named it: other users and versions have one of that name too, but not its sandbox. */
static const char *told_apart_by(const json_t *item)
{
	const char *sandbox = vial_api_string(item, "sandbox_id");
	return sandbox ? sandbox : vial_api_string(item, "id");
}

/* A page whose cursor has gone since begins at the front again: what was there before is not added twice. */
static void add_new(json_t *all, GHashTable *seen, const json_t *items)
{
	for (gsize i = 0; i < json_array_size(items); i++) {
		json_t *item = json_array_get(items, i);
		const char *id = told_apart_by(item);
		if (!id || g_hash_table_add(seen, (gpointer)id)) /* the array keeps the item, and so the id */
			json_array_append(all, item);
	}
}

json_t *vial_api_pages(VialCli *cli, const char *path, const char *query, GError **error)
{
	g_autoptr(json_t) all = json_array();
	g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
	g_autofree char *cursor = NULL;
	for (int page = 0; page < PAGES_MAX; page++) {
		g_autofree char *from = cursor ? g_uri_escape_string(cursor, NULL, FALSE) : NULL;
		g_autofree char *full = g_strdup_printf("%s?limit=%d%s%s%s", path, PAGE_SIZE, query, from ? "&cursor=" : "", from ? from : "");
		g_autoptr(json_t) answer = NULL;
		if (!vial_api_call(cli, "GET", full, NULL, &answer, error))
			return NULL;
		add_new(all, seen, vial_api_list(answer, "items"));
		char *next = json_is_object(answer) ? vial_api_text(answer, "next") : NULL;
		g_free(cursor);
		cursor = next;
		if (!next || !*next)
			break;
	}
	return g_steal_pointer(&all);
}

json_t *vial_api_sandboxes(VialCli *cli, const char *query, GError **error)
{
	return vial_api_pages(cli, "/v1/sandboxes", query, error);
}

gboolean vial_api_me(VialCli *cli, char **out_project, char **out_role, GError **error)
{
	g_autoptr(json_t) me = NULL;
	if (!vial_api_call(cli, "GET", "/v1/me", NULL, &me, error))
		return FALSE;
	if (!vial_api_string(me, "project") || !vial_api_string(me, "role")) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s does not say who we are: is it viald?", cli->url);
		return FALSE;
	}
	*out_project = vial_api_text(me, "project");
	*out_role = vial_api_text(me, "role");
	return TRUE;
}

char *vial_api_sandbox_id(VialCli *cli, const char *given, GError **error)
{
	gsize size = strlen(given);
	if (size == 0 || strspn(given, "abcdefghijklmnopqrstuvwxyz0123456789") != size || size > SANDBOX_ID_SIZE) {
		g_autofree char *clean = vial_sanitize_line(given);
		g_set_error(error, VIAL_HTTP_ERROR, 404, "\"%s\" is not a sandbox id: `vial ls` shows them", clean);
		return NULL;
	}
	if (size == SANDBOX_ID_SIZE)
		return g_strdup(given);
	g_autoptr(json_t) sandboxes = vial_api_sandboxes(cli, "", error);
	if (!sandboxes)
		return NULL;
	const char *found = NULL;
	for (gsize i = 0; i < json_array_size(sandboxes); i++) {
		const char *id = vial_api_string(json_array_get(sandboxes, i), "id");
		if (!id || !g_str_has_prefix(id, given))
			continue;
		if (found) {
			g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "several sandboxes begin with \"%s\": give more of the id", given);
			return NULL;
		}
		found = id;
	}
	if (!found)
		g_set_error(error, VIAL_HTTP_ERROR, 404, "there is no sandbox \"%s\": `vial ls` shows them", given);
	return g_strdup(found);
}

const char *vial_api_string(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

gint64 vial_api_integer(const json_t *object, const char *name, gint64 otherwise)
{
	const json_t *value = json_object_get(object, name);
	return json_is_number(value) ? (gint64)json_number_value(value) : otherwise;
}

char *vial_api_text(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	if (json_is_string(value))
		return g_strdup(json_string_value(value));
	if (!value || json_is_null(value))
		return g_strdup("");
	if (json_is_real(value))
		return g_strdup_printf("%.6g", json_real_value(value));
	char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	char *copy = g_strdup(text ? text : "");
	free(text);
	return copy;
}

char *vial_api_line(const json_t *object, const char *name)
{
	g_autofree char *text = vial_api_text(object, name);
	return vial_sanitize_line(text);
}

char *vial_api_pairs(const json_t *object)
{
	GString *text = g_string_new(NULL);
	const char *key;
	json_t *value;
	json_object_foreach ((json_t *)object, key, value) {
		g_autofree char *shown = vial_api_text(object, key);
		g_string_append_printf(text, "%s%s=%s", text->len ? " " : "", key, shown);
	}
	return g_string_free(text, FALSE);
}

json_t *vial_api_object_from_pairs(const GPtrArray *list, const char *option, GError **error)
{
	g_autoptr(json_t) object = json_object();
	for (guint i = 0; list && i < list->len; i++) {
		g_autofree char *key = NULL;
		const char *value = NULL, *pair = g_ptr_array_index(list, i);
		if (!vial_options_split_pair(pair, &key, &value)) {
			g_set_error(error, VIAL_OPTIONS_ERROR, 0, "--%s wants NAME=VALUE, not \"%s\"", option, pair);
			return NULL;
		}
		json_object_set_new(object, key, json_string(value));
	}
	return g_steal_pointer(&object);
}

int vial_api_each(VialCli *cli, const char *method, const char *path_format, int argc, char **argv)
{
	int status = VIAL_EXIT_OK;
	g_auto(GStrv) paths = g_new0(char *, argc + 1);
	g_auto(GStrv) ids = g_new0(char *, argc + 1);
	guint count = 0;
	for (int i = 0; i < argc; i++) {
		GError *error = NULL;
		char *id = vial_api_sandbox_id(cli, argv[i], &error);
		if (!id) {
			status = vial_output_fail(cli, error);
			continue;
		}
		ids[count] = id;
		paths[count++] = vial_api_path(path_format, id);
	}
	g_autofree json_t **answers = g_new0(json_t *, count + 1);
	g_autofree GError **errors = g_new0(GError *, count + 1);
	vial_api_call_many(cli, method, paths, count, NULL, VIAL_API_PARALLEL, answers, errors);
	for (guint i = 0; i < count; i++) {
		if (errors[i])
			status = vial_output_fail(cli, errors[i]);
		else if (cli->is_json)
			printf("{\"id\": \"%s\"}\n", ids[i]);
		else if (!cli->is_quiet)
			puts(ids[i]);
		json_decref(answers[i]);
	}
	return status;
}
