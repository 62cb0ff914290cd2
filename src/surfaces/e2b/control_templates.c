/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: a build is announced, then begun, then watched. A template's id is its name here, so that it leads to the newest; what a client adds to
 * a name (project/name:default) is taken off again.
 */
#include <string.h>

#include "operations/announced.h"
#include "operations/limits.h"
#include "operations/templates.h"
#include "surfaces/e2b/build_id.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"

static const char *template_param(VialArena *arena, const VialRequest *request)
{
	return vial_e2b_plain_name(arena, vial_request_param(request, "template"));
}

/* Announcing */

/* The newest has the tag `default` there, which nobody need say here. */
static json_t *plain_tags(const json_t *given)
{
	json_t *tags = json_array();
	const json_t *tag;
	gsize i;

	json_array_foreach ((json_t *)given, i, tag)
		if (g_strcmp0(json_string_value(tag), "default") != 0)
			json_array_append(tags, (json_t *)tag);
	return tags;
}

static json_t *announced_json(const VialRequest *request, const char *id, const VialTemplateBuildRequest *build)
{
	g_autofree char *name = g_strndup(build->name, strcspn(build->name, ":")), *full = vial_e2b_full_name(request, name);
	g_autofree char *uuid = vial_e2b_uuid(id);
	const char *tag = strchr(build->name, ':');
	json_t *tags = json_deep_copy(build->tags);

	full[strlen(full) - strlen(":default")] = '\0';
	if (tag)
		json_array_insert_new(tags, 0, json_string(tag + 1));
	if (json_array_size(tags) == 0)
		json_array_append_new(tags, json_string("default"));
	return json_pack("{s:s, s:s, s:b, s:[s], s:[s], s:o}", "templateID", build->name, "buildID", uuid, "public", FALSE, "names", full, "aliases",
	                 name, "tags", tags);
}

void vial_e2b_template_announce(VialRequest *request)
{
	VialTemplateBuildRequest build = { .cpu = (double)VIAL_UNSAID, .memory_mb = VIAL_UNSAID };
	VialCaller caller = vial_surface_caller(request);
	const json_t *body = vial_request_json(request);
	g_autoptr(json_t) plain = NULL;
	const char *id = NULL;
	GError *error = NULL;
	VialArena arena;

	vial_arena_init(&arena);
	if (vial_decode_text(body, "name", &build.name, &error) && (build.name || vial_decode_text(body, "alias", &build.name, &error)) &&
	    vial_decode_list(body, "tags", &build.tags, &error) && vial_decode_real(body, "cpuCount", &build.cpu, &error) &&
	    vial_decode_int(body, "memoryMB", &build.memory_mb, &error)) {
		build.name = vial_e2b_plain_name(&arena, build.name);
		build.tags = plain = plain_tags(build.tags);
		id = vial_op_build_announce(&caller, &build, &error);
	}
	if (id)
		vial_request_reply_json(request, 202, announced_json(request, id, &build));
	else
		vial_request_reply_error(request, error);
	vial_arena_clear(&arena);
}

/* Beginning */

static void on_begun(json_t *document, const GError *error, gpointer data)
{
	vial_surface_reply_accepted(NULL, error, data);
}

void vial_e2b_template_build(VialRequest *request)
{
	VialTemplateBuildRequest build = { .disk_mb = VIAL_UNSAID, .timeout_seconds = VIAL_UNSAID };
	VialCaller caller = vial_surface_question(request);
	g_autofree char *id = vial_e2b_uuid_to_id(vial_request_param(request, "build"));
	g_autoptr(GError) error = NULL;
	VialArena arena;

	vial_arena_init(&arena);
	vial_surface_begun(request,
	                   vial_e2b_build_decode(&arena, &caller, vial_request_json(request), &build, &error) &&
	                           vial_op_build_begin(&caller, id ? id : "", template_param(&arena, request), &build, on_begun, request, &error),
	                   &error);
	json_decref(build.steps);
	vial_arena_clear(&arena);
}

/* Watching */

typedef struct {
	VialRequest *request;
	VialBuildLogReader *reader;
	json_t *answer; /* without its entries */
	json_t *entries;
	gint64 skip, limit;
} Status;

static void status_free(Status *status)
{
	vial_request_on_gone(status->request, NULL, NULL);
	vial_request_unref(status->request);
	json_decref(status->answer);
	json_decref(status->entries);
	g_free(status);
}

static void status_reply(Status *status)
{
	json_object_set(status->answer, "logEntries", status->entries);
	vial_request_reply_json(status->request, 200, json_incref(status->answer));
	status_free(status);
}

static json_t *entry_json(const char *text, gsize size)
{
	g_autoptr(json_t) line = json_loadb(text, size, 0, NULL);
	gboolean is_stderr = g_strcmp0(json_string_value(json_object_get(line, "stream")), "stderr") == 0;
	g_autofree char *step = g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(line, "step")));

	if (!line)
		return NULL;
	return json_pack("{s:O, s:O, s:s, s:s}", "timestamp", json_object_get(line, "time"), "message", json_object_get(line, "text"), "level",
	                 is_stderr ? "warn" : "info", "step", step);
}

static void on_full(Status *status)
{
	vial_build_log_reader_free(status->reader);
	status_reply(status);
}

static gboolean on_line(const char *text, gsize size, gpointer data)
{
	Status *status = data;
	json_t *entry = status->skip > 0 ? NULL : entry_json(text, size);

	if (status->skip > 0)
		status->skip--;
	else if (entry)
		json_array_append_new(status->entries, entry);
	if ((gint64)json_array_size(status->entries) < status->limit)
		return FALSE;
	on_full(status);
	return TRUE;
}

static void on_end(gpointer data)
{
	status_reply(data);
}

static void on_gone(VialRequest *request, gpointer data)
{
	Status *status = data;

	vial_build_log_reader_free(status->reader);
	status_free(status);
}

/* pending, building, ready, failed, as they call it. */
static const char *status_of(const json_t *build)
{
	static const char *const names[][2] = { { "pending", "waiting" }, { "building", "building" }, { "ready", "ready" }, { "failed", "error" } };
	const char *name = json_string_value(json_object_get(build, "status"));

	for (gsize i = 0; i < G_N_ELEMENTS(names); i++)
		if (g_strcmp0(name, names[i][0]) == 0)
			return names[i][1];
	return "error";
}

/* The step that failed, by its number; the base is what is there before the first, and after the last it is what they call finalize. */
static json_t *reason_json(const json_t *build)
{
	json_int_t step = json_integer_value(json_object_get(build, "step"));
	g_autofree char *number = step > 0 ? g_strdup_printf("%" JSON_INTEGER_FORMAT, step) : g_strdup("base");
	gboolean is_baked = g_strcmp0(json_string_value(json_object_get(build, "phase")), "baking") == 0;

	return json_pack("{s:O, s:s}", "message", json_object_get(build, "error"), "step", is_baked ? "finalize" : number);
}

static json_t *status_json(const char *name, const char *uuid, const json_t *build)
{
	json_t *json = json_pack("{s:s, s:s, s:s, s:[], s:[]}", "templateID", name, "buildID", uuid, "status", build ? status_of(build) : "waiting",
	                         "logs", "logEntries");

	if (json_is_string(json_object_get(build, "error")))
		json_object_set_new(json, "reason", reason_json(build));
	return json;
}

static gboolean decode_status(VialRequest *request, Status *out, GError **error)
{
	out->limit = VIAL_BUILD_LOG_PAGE;
	if (!vial_decode_query_int(request, "logsOffset", &out->skip, error) || !vial_decode_query_int(request, "limit", &out->limit, error))
		return FALSE;
	if (out->skip < 0 || out->limit < 1 || out->limit > VIAL_BUILD_LOG_PAGE)
		return vial_fail(error, VIAL_ERROR_INVALID, "logsOffset is at least 0, and limit from 1 to %d", VIAL_BUILD_LOG_PAGE);
	return TRUE;
}

static void watch(VialRequest *request, const VialCaller *caller, const char *name, const char *id)
{
	static const VialBuildLogSink sink = { .line = on_line, .end = on_end };
	const char *uuid = vial_request_param(request, "build");
	Status *status = g_new0(Status, 1);
	g_autoptr(json_t) build = NULL;
	GError *error = NULL;

	*status = (Status){ .request = vial_request_ref(request), .entries = json_array() };
	if (decode_status(request, status, &error) && (build = vial_op_build_get(caller, id, &error))) {
		status->answer = status_json(name, uuid, build);
		status->reader = vial_op_build_logs(caller, id, FALSE, &sink, status, &error);
	}
	if (status->reader)
		return vial_request_on_gone(request, on_gone, status);
	vial_request_reply_error(request, error);
	status_free(status);
}

void vial_e2b_template_status(VialRequest *request)
{
	g_autofree char *id = vial_e2b_uuid_to_id(vial_request_param(request, "build"));
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	const char *name;
	VialArena arena;

	vial_arena_init(&arena);
	name = template_param(&arena, request);
	if (vial_op_build_is_announced(&caller, id ? id : "", name, &error))
		vial_request_reply_json(request, 200, status_json(name, vial_request_param(request, "build"), NULL));
	else if (error)
		vial_request_reply_error(request, error);
	else
		watch(request, &caller, name, id ? id : "");
	vial_arena_clear(&arena);
}

/* Finding */

void vial_e2b_template_alias(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	g_autoptr(json_t) found = NULL;
	json_t *answer = NULL;
	GError *error = NULL;
	const char *name;
	VialArena arena;

	vial_arena_init(&arena);
	name = template_param(&arena, request);
	found = vial_op_template_get(&caller, name, &error);
	if (found)
		answer = json_pack("{s:s, s:b}", "templateID", name, "public", FALSE);
	vial_surface_reply_now(request, answer, error);
	vial_arena_clear(&arena);
}
