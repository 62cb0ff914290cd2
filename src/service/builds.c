/* SPDX-License-Identifier: Apache-2.0 */
#include "service/builds.h"

#include <glib/gstdio.h>
#include <string.h>

#include "audit/audit.h"
#include "service/builds_private.h"
#include "service/project.h"
#include "service/quota.h"
#include "service/sandbox_private.h"
#include "util/id.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

/* Builds that are over are remembered, with their logs: so many of a project. */
#define KEPT_PER_PROJECT 100

struct VialBuilds {
	VialApp *app;
	GHashTable *by_id;
	GQueue waiting; /* VialBuild, borrowed */
	guint under_way;
	guint pump;
	gboolean is_started; /* nothing is begun before what was under way is told of */
	gboolean is_stopped;
};

static const char *const state_names[] = { "pending", "building", "ready", "failed" };
static const char *const phase_names[] = { "starting", "steps", "packing", "baking" };

static void build_free(gpointer data)
{
	VialBuild *build = data;

	vial_build_run_free(build);
	vial_identity_unref(build->principal);
	json_decref(build->source);
	json_decref(build->steps);
	json_decref(build->secrets);
	json_decref(build->network);
	json_decref(build->last_lines);
	vial_build_log_unref(build->log);
	g_free(build->id);
	g_free(build->project);
	g_free(build->key_id);
	g_free(build->name);
	g_free(build->tag);
	g_free(build->base_hash);
	g_free(build->layer);
	g_free(build->error);
	g_free(build->cancelled_by);
	g_free(build->template_id);
	g_free(build);
}

const char *vial_build_id(const VialBuild *build)
{
	return build->id;
}

const char *vial_build_name(const VialBuild *build)
{
	return build->name;
}

VialBuildState vial_build_state(const VialBuild *build)
{
	return build->state;
}

VialBuildLog *vial_build_log(const VialBuild *build)
{
	return build->log;
}

char *vial_build_full_name(const VialBuild *build)
{
	return build->tag ? g_strdup_printf("%s:%s", build->name, build->tag) : g_strdup(build->name);
}

static gboolean is_over(const VialBuild *build)
{
	return build->state == VIAL_BUILD_READY || build->state == VIAL_BUILD_FAILED;
}

static char *builds_dir(VialApp *app)
{
	return g_build_filename(app->config->data_dir, "builds", NULL);
}

char *vial_build_log_path(VialApp *app, const char *id)
{
	return g_strdup_printf("%s/builds/%s.log", app->config->data_dir, id);
}

/* As it is shown, and kept */

static void set_time(json_t *json, const char *name, gint64 time_ms)
{
	char text[VIAL_TIME_TEXT_SIZE];

	if (time_ms == 0)
		return;
	vial_time_fill(text, time_ms);
	json_object_set_new(json, name, json_string(text));
}

static void copy(json_t *json, const json_t *from, const char *name)
{
	json_t *value = json_object_get(from, name);

	if (value)
		json_object_set(json, name, value);
}

json_t *vial_build_json(const VialBuild *build, gboolean is_whole)
{
	g_autofree char *full = vial_build_full_name(build);
	json_t *json =
		json_pack("{s:s, s:s, s:s, s:s*, s:s, s:s*, s:i, s:i, s:b, s:s*, s:s*}", "build_id", build->id, "name", build->name, "template", full,
	                  "tag", build->tag, "status", state_names[build->state], "phase", build->phase, "step", (int)build->step, "steps_total",
	                  (int)json_array_size(build->steps), "cached", build->is_cached, "error", build->error, "template_id", build->template_id);

	copy(json, build->source, "base");
	if (build->exit_code >= 0)
		json_object_set_new(json, "exit_code", json_integer(build->exit_code));
	if (build->last_lines)
		json_object_set(json, "last_lines", build->last_lines);
	if (build->cancelled_by)
		json_object_set_new(json, "cancelled", json_true());
	if (build->layer)
		json_object_set_new(json, "layer_bytes", json_integer(build->layer_bytes));
	set_time(json, "created_at", build->created_at_ms);
	set_time(json, "started_at", build->started_at_ms);
	set_time(json, "ended_at", build->ended_at_ms);
	if (is_whole) {
		static const char *const fields[] = { "dockerfile",   "args", "cpu",           "memory_mb",     "disk_mb",    "network",
			                              "secret_names", "warm", "start_command", "ready_command", "start_user", "timeout_seconds" };

		for (gsize i = 0; i < G_N_ELEMENTS(fields); i++)
			copy(json, build->source, fields[i]);
		json_object_set(json, "steps", build->steps);
	}
	return json;
}

/* Secrets are not in it: whoever reads the database finds their names. */
void vial_build_store(VialBuild *build, VialStoreDone done, gpointer data)
{
	g_autoptr(json_t) document = json_pack(
		"{s:s*, s:s*, s:O, s:O, s:O, s:f, s:I, s:I, s:I, s:I, s:b, s:i, s:b, s:s*, s:s*, s:I, s:s*, s:i, s:O*, s:s*, s:s*, s:I, s:I}", "tag",
		build->tag, "phase", build->phase, "source", build->source, "steps", build->steps, "network", build->network, "cpu",
		build->limits.cpu, "memory_mb", (json_int_t)build->limits.memory_mb, "disk_mb", (json_int_t)build->limits.disk_mb, "process_limit",
		(json_int_t)build->limits.process_limit, "timeout_seconds", (json_int_t)build->timeout_seconds, "no_cache", build->no_cache, "step",
		(int)build->step, "cached", build->is_cached, "base_hash", build->base_hash, "layer", build->layer, "layer_bytes",
		(json_int_t)build->layer_bytes, "error", build->error, "exit_code", build->exit_code, "last_lines", build->last_lines, "cancelled_by",
		build->cancelled_by, "template_id", build->template_id, "started_at", (json_int_t)build->started_at_ms, "ended_at",
		(json_int_t)build->ended_at_ms);
	g_autofree char *text = vial_json_dump(document);
	VialBuildRecord record = {
		.id = build->id,
		.project = build->project,
		.key_id = build->key_id,
		.name = build->name,
		.status = (char *)state_names[build->state],
		.document = text,
		.created_at = build->created_at_ms,
		.updated_at = vial_time_now_ms(),
	};

	if (!build->is_forgotten)
		vial_store_put_build(build->app->store, &record, done, data);
}

static char *text_of(const json_t *document, const char *name)
{
	return g_strdup(json_string_value(json_object_get(document, name)));
}

static gint64 number_of(const json_t *document, const char *name)
{
	return json_integer_value(json_object_get(document, name));
}

static json_t *value_of(const json_t *document, const char *name, json_t *otherwise)
{
	json_t *value = json_object_get(document, name);

	if (!value)
		return otherwise;
	json_decref(otherwise);
	return json_incref(value);
}

static const char *phase_of(const json_t *document)
{
	const char *name = json_string_value(json_object_get(document, "phase"));

	for (gsize i = 0; i < G_N_ELEMENTS(phase_names); i++)
		if (g_strcmp0(name, phase_names[i]) == 0)
			return phase_names[i];
	return NULL;
}

static VialBuild *from_record(VialApp *app, const VialBuildRecord *record)
{
	g_autoptr(json_t) document = json_loads(record->document, JSON_REJECT_DUPLICATES, NULL);
	VialBuild *build = g_new0(VialBuild, 1);

	*build = (VialBuild){
		.app = app,
		.id = g_strdup(record->id),
		.project = g_utf8_make_valid(record->project, -1),
		.key_id = g_utf8_make_valid(record->key_id, -1),
		.name = g_utf8_make_valid(record->name, -1),
		.tag = text_of(document, "tag"),
		.source = value_of(document, "source", json_object()),
		.steps = value_of(document, "steps", json_array()),
		.network = value_of(document, "network", json_pack("{s:s}", "mode", "disabled")),
		.limits = { .cpu = json_number_value(json_object_get(document, "cpu")),
		            .memory_mb = number_of(document, "memory_mb"),
		            .disk_mb = number_of(document, "disk_mb"),
		            .process_limit = number_of(document, "process_limit") },
		.timeout_seconds = number_of(document, "timeout_seconds"),
		.no_cache = json_is_true(json_object_get(document, "no_cache")),
		.state = VIAL_BUILD_FAILED,
		.phase = phase_of(document),
		.step = (guint)number_of(document, "step"),
		.is_cached = json_is_true(json_object_get(document, "cached")),
		.base_hash = text_of(document, "base_hash"),
		.layer = text_of(document, "layer"),
		.layer_bytes = number_of(document, "layer_bytes"),
		.error = text_of(document, "error"),
		.exit_code = document ? (int)number_of(document, "exit_code") : -1,
		.last_lines = value_of(document, "last_lines", NULL),
		.cancelled_by = text_of(document, "cancelled_by"),
		.template_id = text_of(document, "template_id"),
		.created_at_ms = record->created_at,
		.started_at_ms = number_of(document, "started_at"),
		.ended_at_ms = number_of(document, "ended_at"),
	};
	for (gsize i = 0; i < G_N_ELEMENTS(state_names); i++)
		if (document && strcmp(record->status, state_names[i]) == 0)
			build->state = (VialBuildState)i;
	if (!document && !build->error)
		build->error = g_strdup("what is recorded of this build cannot be read");
	return build;
}

/* From here on, not only when it is resumed: it may be cancelled and followed before that. A killed viald's log may be ahead of its record. */
static void reopen_log(VialBuild *build)
{
	g_autofree char *path = vial_build_log_path(build->app, build->id);
	guint total = (guint)json_array_size(build->steps);

	if (build->state == VIAL_BUILD_BUILDING)
		build->step = MAX(build->step, MIN(vial_build_log_last_step(path), total));
	build->log = vial_build_log_open(path, NULL);
	if (build->log)
		vial_build_log_step(build->log, build->step, total);
}

VialBuilds *vial_builds_load(VialApp *app, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_builds(app->store, error);
	VialBuilds *builds;

	if (!records)
		return NULL;
	builds = g_new0(VialBuilds, 1);
	builds->app = app;
	builds->by_id = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, build_free);
	g_queue_init(&builds->waiting);
	for (guint i = 0; i < records->len; i++) {
		VialBuild *build = from_record(app, records->pdata[i]);

		if (!is_over(build))
			reopen_log(build);
		g_hash_table_insert(builds->by_id, build->id, build);
	}
	return builds;
}

void vial_builds_free(VialBuilds *builds)
{
	if (!builds)
		return;
	g_clear_handle_id(&builds->pump, g_source_remove);
	g_queue_clear(&builds->waiting);
	g_hash_table_unref(builds->by_id);
	g_free(builds);
}

/* Finding */

static int newest_first(gconstpointer a, gconstpointer b)
{
	const VialBuild *left = *(VialBuild *const *)a, *right = *(VialBuild *const *)b;

	if (left->created_at_ms != right->created_at_ms)
		return left->created_at_ms > right->created_at_ms ? -1 : 1;
	return strcmp(left->id, right->id);
}

GPtrArray *vial_builds_of(VialApp *app, const char *project)
{
	GPtrArray *list = g_ptr_array_new();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->builds->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (strcmp(((VialBuild *)value)->project, project) == 0)
			g_ptr_array_add(list, value);
	g_ptr_array_sort(list, newest_first);
	return list;
}

VialBuild *vial_builds_find(VialApp *app, const char *project, const char *id, GError **error)
{
	VialBuild *build = id ? g_hash_table_lookup(app->builds->by_id, id) : NULL;

	if (build && strcmp(build->project, project) == 0)
		return build;
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no build %.40s", id ? id : "");
	return NULL;
}

guint vial_builds_promised(VialApp *app, const char *project, const char *key_id)
{
	guint count = 0;
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->builds->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const VialBuild *build = value;

		count += !is_over(build) && strcmp(build->project, project) == 0 && (!key_id || strcmp(build->key_id, key_id) == 0) &&
		         !vial_custom_templates_replaces(app, project, build->name, build->tag);
	}
	return count;
}

void vial_builds_each_layer(VialApp *app, void (*each)(const char *layer, gpointer data), gpointer data)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->builds->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialBuild *build = value;

		if (is_over(build))
			continue;
		if (build->layer)
			each(build->layer, data);
		vial_build_run_each_layer(build, each, data);
	}
}

static void each_file_of(const VialBuild *build, void (*each)(const char *hash, gpointer data), gpointer data)
{
	const json_t *step;
	gsize i;

	json_array_foreach (build->steps, i, step) {
		const char *hash = json_string_value(json_object_get(json_object_get(step, "copy"), "archive"));

		if (hash)
			each(hash, data);
	}
}

void vial_builds_each_file(VialApp *app, const char *project, void (*each)(const char *hash, gpointer data), gpointer data)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->builds->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (!is_over(value) && strcmp(((VialBuild *)value)->project, project) == 0)
			each_file_of(value, each, data);
}

gboolean vial_builds_are_packing(VialApp *app)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->builds->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (vial_build_run_is_packing(value))
			return TRUE;
	return FALSE;
}

gboolean vial_builds_use_folder(VialApp *app, const char *folder)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->builds->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (!is_over(value) && strcmp(((VialBuild *)value)->id, folder) == 0)
			return TRUE;
	return FALSE;
}

/* The queue */

static gboolean pump(gpointer data);

static void pump_soon(VialBuilds *builds)
{
	if (!builds->pump && builds->is_started && !builds->is_stopped)
		builds->pump = g_idle_add(pump, builds);
}

/* After a restart: by the key that asked for it, with what that may do now. */
static gboolean find_principal(VialBuild *build, GError **error)
{
	const VialKey *key;

	if (build->principal && !build->principal->has_ended)
		return TRUE;
	key = vial_keys_find(build->app->keys, build->key_id);
	g_clear_pointer(&build->principal, vial_identity_unref);
	if (!key)
		return vial_fail(error, VIAL_ERROR_FORBIDDEN,
		                 "whoever asked for this build may not any more: the key is gone, or a person's token has ended");
	build->principal = vial_identity_ref((VialIdentity *)vial_key_identity(key));
	return TRUE;
}

static gboolean has_secrets(const VialBuild *build, GError **error)
{
	return json_array_size(json_object_get(build->source, "secret_names")) == json_object_size(build->secrets) ||
	       vial_fail(error, VIAL_ERROR_UNAVAILABLE, "viald was restarted while this build waited, and secrets are not kept; build it again");
}

static gboolean pump(gpointer data)
{
	VialBuilds *builds = data;
	g_autoptr(GError) error = NULL;
	VialBuild *build;

	builds->pump = 0;
	if (builds->is_stopped || builds->under_way >= (guint)builds->app->config->max_builds || !(build = g_queue_pop_head(&builds->waiting)))
		return G_SOURCE_REMOVE;
	builds->under_way++;
	build->state = VIAL_BUILD_BUILDING;
	build->started_at_ms = vial_time_now_ms();
	if (find_principal(build, &error) && has_secrets(build, &error))
		vial_build_run(build);
	else
		vial_build_over(build, error);
	pump_soon(builds);
	return G_SOURCE_REMOVE;
}

void vial_build_set_phase(VialBuild *build, const char *phase, guint step)
{
	build->phase = phase;
	build->step = step;
	vial_build_store(build, NULL, NULL);
}

/* The end of one */

/* A record of viald's own: that it was asked for is its owner's. */
static void record_end(const VialBuild *build)
{
	g_autofree char *full = vial_build_full_name(build);
	gboolean is_ready = build->state == VIAL_BUILD_READY;
	json_t *header = json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}}", "action", is_ready ? "template.ready" : "template.fail", "outcome", "done",
	                           "project", build->project, "principal", "kind", "system", "id", "system", "name", "viald");
	json_t *body = json_pack("{s:s, s:s, s:b, s:s*, s:s*}", "build", build->id, "template", full, "cached", build->is_cached, "layer",
	                         build->layer, "reason", build->error);
	g_autoptr(GError) error = NULL;

	json_object_set_new(body, "step", json_integer(build->step));
	if (build->exit_code >= 0)
		json_object_set_new(body, "exit_code", json_integer(build->exit_code));
	if (!vial_audit_add(build->app->audit, header, body, TRUE, &error))
		vial_log_error("audit", "the end of a build could not be recorded", "build_id", build->id, "error", error->message);
}

static void forget(VialBuild *build)
{
	g_autofree char *log = vial_build_log_path(build->app, build->id);

	vial_store_delete_build(build->app->store, build->id, NULL, NULL);
	g_unlink(log);
	g_hash_table_remove(build->app->builds->by_id, build->id);
}

/* `ended` stays, however long ago it was asked for: whoever ended it goes on to tell of it. */
static void forget_old(const VialBuild *ended)
{
	g_autoptr(GPtrArray) list = vial_builds_of(ended->app, ended->project);
	guint kept = 1;

	for (guint i = 0; i < list->len; i++)
		if (list->pdata[i] != ended && is_over(list->pdata[i]) && ++kept > KEPT_PER_PROJECT)
			forget(list->pdata[i]);
}

static void close_log(VialBuild *build)
{
	if (!build->log)
		return;
	if (build->state == VIAL_BUILD_READY)
		vial_build_log_event(build->log, "the template is ready");
	else
		vial_build_log_event(build->log, "the build has failed: %s", build->error);
	vial_build_log_close(build->log);
	g_clear_pointer(&build->log, vial_build_log_unref);
}

static void forget_secrets(VialBuild *build)
{
	const char *name;
	json_t *value;

	json_object_foreach (build->secrets, name, value)
		explicit_bzero((char *)json_string_value(value), json_string_length(value));
	g_clear_pointer(&build->secrets, json_decref);
}

void vial_build_over(VialBuild *build, const GError *error)
{
	VialApp *app = build->app;

	app->builds->under_way--;
	build->state = error ? VIAL_BUILD_FAILED : VIAL_BUILD_READY;
	build->ended_at_ms = vial_time_now_ms();
	build->phase = error ? build->phase : NULL; /* that of a failed one is where it failed */
	g_free(build->error);
	build->error = NULL;
	if (error && build->cancelled_by)
		build->error = g_strdup_printf("it was cancelled by %s", build->cancelled_by);
	else if (error)
		build->error = build->log ? vial_build_log_clean(build->log, error->message) : g_strdup(error->message);
	vial_log_info("build", error ? "failed" : "ready", "build_id", build->id, "template", build->name, "error", build->error ? build->error : "");
	record_end(build);
	close_log(build);
	forget_secrets(build);
	vial_build_store(build, NULL, NULL);
	vial_layers_collect(app);
	if (build->is_forgotten)
		forget(build);
	else
		forget_old(build);
	pump_soon(app->builds);
}

/* Asking for one */

static gboolean fits_queue(VialApp *app, const char *project, GError **error)
{
	guint limit = (guint)app->config->max_builds_waiting, own_limit = (guint)app->config->max_builds_waiting_project, own = 0;

	for (GList *l = app->builds->waiting.head; l; l = l->next)
		own += strcmp(((VialBuild *)l->data)->project, project) == 0;
	if (own >= own_limit)
		return vial_fail_with(error, VIAL_ERROR_QUOTA,
		                      json_pack("{s:{s:s, s:s, s:i, s:i, s:i}, s:i}", "limit", "name", "max_builds_waiting_project", "scope",
		                                "project", "limit", (int)own_limit, "used", (int)own, "asked", 1, "retry_after", 30),
		                      "%u builds of the project %s wait already, as many as may; try again when some are over", own, project);
	if (g_queue_get_length(&app->builds->waiting) < limit)
		return TRUE;
	return vial_fail_with(error, VIAL_ERROR_UNAVAILABLE, json_pack("{s:i}", "retry_after", 30),
	                      "%u builds wait already, as many as may here; try again in a moment", limit);
}

VialBuild *vial_builds_add(VialApp *app, const VialIdentity *principal, const VialBuildRequest *request, VialStoreDone done, gpointer data,
                           GError **error)
{
	g_autofree char *id = request->id ? g_strdup(request->id) : vial_id_new(), *path = vial_build_log_path(app, id), *dir = builds_dir(app);
	VialBuildLog *log;
	VialBuild *build;

	if (!fits_queue(app, principal->project, error) || !vial_quota_admit_template(app, principal, request->name, request->tag, error))
		return NULL;
	g_mkdir_with_parents(dir, 0700);
	log = vial_build_log_open(path, error);
	if (!log)
		return NULL;
	build = g_new0(VialBuild, 1);
	*build = (VialBuild){
		.app = app,
		.id = g_steal_pointer(&id),
		.project = g_strdup(principal->project),
		.key_id = g_strdup(principal->id),
		.principal = vial_identity_ref((VialIdentity *)principal),
		.name = g_strdup(request->name),
		.tag = g_strdup(request->tag),
		.source = json_incref(request->source),
		.steps = json_incref(request->steps),
		.secrets = request->secrets ? json_incref(request->secrets) : NULL,
		.limits = request->limits,
		.network = json_incref(request->network),
		.timeout_seconds = request->timeout_seconds,
		.no_cache = request->no_cache,
		.exit_code = -1,
		.created_at_ms = vial_time_now_ms(),
		.log = log,
	};
	vial_build_log_hide(log, build->secrets);
	vial_build_log_step(log, 0, (guint)json_array_size(build->steps));
	vial_build_log_event(log, "queued; %u builds are before it", g_queue_get_length(&app->builds->waiting) + app->builds->under_way);
	g_hash_table_insert(app->builds->by_id, build->id, build);
	g_queue_push_tail(&app->builds->waiting, build);
	vial_build_store(build, done, data);
	pump_soon(app->builds);
	return build;
}

gboolean vial_build_cancel(VialBuild *build, const char *who, GError **error)
{
	g_autoptr(GError) reason = NULL;

	if (is_over(build))
		return vial_fail(error, VIAL_ERROR_CONFLICT, "this build is over: it is %s", state_names[build->state]);
	/* Since a viald that was killed, `by_id` alone tells. */
	if (vial_build_run_is_naming(build) || vial_custom_templates_by_id(build->app, build->id))
		return vial_fail(error, VIAL_ERROR_CONFLICT,
		                 "this build is all but over: its template is taking its name; delete that when it is there");
	if (build->cancelled_by)
		return TRUE;
	build->cancelled_by = g_strdup(who);
	if (build->log) /* NULL: it could not be opened again after a restart */
		vial_build_log_event(build->log, "cancelled by %s", who);
	if (build->state == VIAL_BUILD_BUILDING) {
		vial_build_run_stop(build);
		return TRUE;
	}
	g_queue_remove(&build->app->builds->waiting, build);
	build->app->builds->under_way++; /* which vial_build_over() takes off */
	reason = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_CONFLICT, "it was cancelled");
	vial_build_over(build, reason);
	return TRUE;
}

guint vial_builds_delete_all(VialApp *app, const char *project)
{
	g_autoptr(GPtrArray) list = vial_builds_of(app, project);
	guint left = 0;

	for (guint i = 0; i < list->len; i++) {
		VialBuild *build = list->pdata[i];

		if (is_over(build)) {
			forget(build);
			continue;
		}
		left++;
		build->is_forgotten = TRUE;
		vial_build_cancel(build, "viald: its project is deleted", NULL);
	}
	return left;
}

/* After a restart, and before one */

static void end_interrupted(VialBuild *build)
{
	g_autoptr(GError) error = NULL;
	guint total = (guint)json_array_size(build->steps);

	build->app->builds->under_way++; /* which vial_build_over() takes off */
	/* The template was recorded, and viald killed before the build was: it has not failed. */
	if (vial_custom_templates_by_id(build->app, build->id)) {
		g_free(build->template_id);
		build->template_id = g_strdup(build->id);
		return vial_build_over(build, NULL);
	}
	if (build->step > 0 && build->step <= total && !build->layer)
		vial_fail(&error, VIAL_ERROR_UNAVAILABLE, "viald was restarted during step %u of %u; build it again", build->step, total);
	else
		vial_fail(&error, VIAL_ERROR_UNAVAILABLE, "viald was restarted during this build; build it again");
	vial_build_over(build, error);
}

static int oldest_first(gconstpointer a, gconstpointer b, gpointer unused)
{
	const VialBuild *left = a, *right = b;

	return left->created_at_ms < right->created_at_ms ? -1 : left->created_at_ms > right->created_at_ms;
}

/* What a build has taken of its sandbox and had no time to name. */
static void delete_snapshots(const VialSandbox *sandbox)
{
	VialApp *app = sandbox->app;
	g_autoptr(GPtrArray) all = vial_snapshots_of(app, sandbox->project);

	for (guint i = 0; i < all->len; i++) {
		VialSnapshot *snapshot = all->pdata[i];

		if (strcmp(snapshot->sandbox_id, sandbox->id) == 0 && !vial_custom_templates_with_snapshot(app, snapshot->id))
			vial_snapshot_delete(app, snapshot, NULL, NULL);
	}
}

/* Sandboxes that the last viald made for a build are nobody's. */
static void delete_sandboxes(VialApp *app)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(app->sandboxes);

	for (guint i = 0; i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];

		if (!sandbox->build)
			continue;
		delete_snapshots(sandbox);
		vial_sandbox_record(sandbox, "sandbox.delete", "its build was interrupted");
		vial_sandbox_delete(sandbox, NULL, NULL);
	}
}

void vial_builds_resume(VialApp *app)
{
	g_autoptr(GPtrArray) interrupted = g_ptr_array_new();
	VialBuilds *builds = app->builds;
	GHashTableIter iter;
	gpointer value;

	delete_sandboxes(app);
	g_hash_table_iter_init(&iter, builds->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialBuild *build = value;

		if (is_over(build) || g_queue_find(&builds->waiting, build)) /* asked for since the start */
			continue;
		if (build->state == VIAL_BUILD_PENDING && build->log)
			g_queue_insert_sorted(&builds->waiting, build, oldest_first, NULL);
		else
			g_ptr_array_add(interrupted, build);
	}
	for (guint i = 0; i < interrupted->len; i++)
		end_interrupted(interrupted->pdata[i]);
}

void vial_builds_begin(VialApp *app)
{
	app->builds->is_started = TRUE;
	pump_soon(app->builds);
}

void vial_builds_stop(VialApp *app)
{
	GHashTableIter iter;
	gpointer value;

	if (!app->builds)
		return;
	app->builds->is_stopped = TRUE;
	g_hash_table_iter_init(&iter, app->builds->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		vial_build_run_abandon(value);
	g_clear_handle_id(&app->builds->pump, g_source_remove);
}
