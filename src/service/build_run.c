/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The course of one build:
 *
 *     space -> cached? ------------------------------------------> bake -> names
 *                    \-> sandbox -> step 1 … n -> layer -> sandbox gone -/
 *
 * and on a base that was made out of a sandbox, whose memory goes on in what is built:
 *
 *     space -> sandbox of the base -> step 1 … n -> warm code -> start -> snapshot -> names -> sandbox gone
 *          \-> sandbox of a snapshot with equal steps ------------/
 *
 * The sandbox is an ordinary one of the base, with the build's network, sizes and its owner's ceilings and quotas, except that nobody sees it. Its
 * steps get secrets in their environment and nowhere else. A template of layers is baked from a fresh boot of base and layer: nothing of the
 * sandbox's memory gets into it. Whatever goes wrong, the sandbox is deleted before the build is over.
 */
#include <string.h>

#include "service/build_run_private.h"
#include "service/custom_templates_private.h"
#include "service/layer.h"
#include "util/fault.h"
#include "util/json.h"
#include "util/time.h"
#include "util/tree.h"

static char *text_dup(const json_t *value)
{
	return g_strdup(json_string_value(value));
}

static void run_free(VialBuildRun *run)
{
	g_clear_handle_id(&run->timer, g_source_remove);
	vial_build_run_clear_step(run);
	vial_start_free(run->start);
	vial_template_free(run->template);
	json_decref(run->env);
	g_clear_error(&run->error);
	g_free(run->workdir);
	g_free(run->base_name);
	g_free(run->origin_id);
	g_free(run->snapshot_id);
	g_free(run->cache_key);
	g_free(run);
}

/* The end */

static void end(VialBuildRun *run)
{
	VialBuild *build = run->build;
	g_autoptr(GError) error = g_steal_pointer(&run->error);

	if (error && run->template) {
		g_autofree char *folder = vial_template_folder(build->app, run->template);

		if (folder)
			vial_tree_remove_later(folder);
	}
	if (error && run->snapshot_id)
		vial_custom_template_doom(build->app, build->id, NULL, run->snapshot_id);
	build->run = NULL;
	run_free(run);
	vial_build_over(build, error);
}

static void on_deleted(VialSandbox *sandbox, const GError *error, gpointer data)
{
	VialBuildRun *run = data;

	if (run->is_abandoned)
		return;
	if (run->error || run->is_named)
		end(run);
	else
		vial_build_run_bake(run);
}

void vial_build_run_leave(VialBuildRun *run)
{
	VialSandbox *sandbox = g_steal_pointer(&run->sandbox), *made = g_steal_pointer(&run->made);

	g_clear_handle_id(&run->timer, g_source_remove);
	vial_build_run_clear_step(run);
	g_clear_pointer(&run->start, vial_start_free);
	if (!sandbox && !made)
		return on_deleted(NULL, NULL, run);
	if (sandbox) {
		made = vial_sandbox_ref(sandbox);
		vial_sandbox_release(sandbox);
	}
	vial_sandbox_delete(made, on_deleted, run);
	vial_sandbox_unref(made);
}

void vial_build_run_fail(VialBuildRun *run, VialErrorCode code, const char *format, ...)
{
	va_list args;

	if (!run->error) {
		g_autofree char *text = NULL;

		va_start(args, format);
		text = g_strdup_vprintf(format, args);
		va_end(args);
		run->error = g_error_new_literal(VIAL_ERROR, (int)code, text);
	}
	vial_build_run_leave(run);
}

/* Stops what is under way; who waits for it then ends the build. */
static void interrupt(VialBuildRun *run, VialErrorCode code, const char *format, ...) G_GNUC_PRINTF(3, 4);

static void interrupt(VialBuildRun *run, VialErrorCode code, const char *format, ...)
{
	g_autofree char *text = NULL;
	va_list args;

	if (run->error)
		return; /* it is ending */
	va_start(args, format);
	text = g_strdup_vprintf(format, args);
	va_end(args);
	run->error = g_error_new_literal(VIAL_ERROR, (int)code, text);
	run->is_stopping = TRUE;
	if (run->stream || run->start)
		vial_build_run_leave(run);
	else if (run->is_taking && run->sandbox->instance)
		vial_instance_give_up(run->sandbox->instance, "its build has ended");
	/* Else it is being created or baked: whoever is told of that sees the error. */
}

void vial_build_run_stop(VialBuild *build)
{
	if (build->run)
		interrupt(build->run, VIAL_ERROR_CONFLICT, "it was cancelled");
}

void vial_build_run_abandon(VialBuild *build)
{
	VialBuildRun *run = build->run;

	if (!run)
		return;
	run->is_abandoned = TRUE;
	g_clear_handle_id(&run->timer, g_source_remove);
	vial_build_run_clear_step(run);
	g_clear_pointer(&run->start, vial_start_free);
}

static gboolean on_timeout(gpointer data)
{
	VialBuildRun *run = data;

	run->timer = 0;
	if (run->start && !run->error) {
		vial_start_expire(run->start);
		return G_SOURCE_REMOVE;
	}
	run->build->last_lines = run->build->last_lines ? run->build->last_lines : vial_build_log_last(run->build->log);
	interrupt(run, VIAL_ERROR_TIMEOUT, "the build did not end within its %" G_GINT64_FORMAT " seconds (timeout_seconds): it was in step %u of %u",
	          run->build->timeout_seconds, run->build->step, (guint)json_array_size(run->build->steps));
	return G_SOURCE_REMOVE;
}

/* Names */

static void on_added(const GError *error, gpointer data)
{
	VialBuildRun *run = data;

	vial_fault("build.named");
	if (error && !run->error)
		run->error = g_error_copy(error);
	run->is_named = TRUE;
	vial_build_run_leave(run);
}

static VialCustomTemplate *make_custom(VialBuildRun *run)
{
	const VialBuild *build = run->build;
	VialCustomTemplate *custom = vial_custom_template_new(build->id, build->project, build->key_id, build->name);
	const json_t *tag;
	gsize i;

	json_array_foreach (json_object_get(build->source, "tags"), i, tag)
		if (g_strcmp0(json_string_value(tag), build->tag) != 0 && strcmp(json_string_value(tag), VIAL_LATEST) != 0)
			g_ptr_array_add(custom->tags, text_dup(tag));
	custom->base = text_dup(json_object_get(build->source, "base"));
	custom->base_hash = g_strdup(build->base_hash);
	custom->source = json_incref(build->source);
	custom->steps = json_incref(build->steps);
	custom->cache_key = g_strdup(run->cache_key);
	custom->layer = g_strdup(build->layer);
	custom->layer_bytes = build->layer_bytes;
	custom->snapshot_id = g_steal_pointer(&run->snapshot_id);
	custom->record = run->template ? vial_template_to_record(build->app, run->template) : NULL;
	return custom;
}

void vial_build_run_name(VialBuildRun *run)
{
	VialBuild *build = run->build;
	VialCustomTemplate *custom = make_custom(run);

	run->is_naming = TRUE;
	vial_build_log_event(build->log, "taking its name");
	g_free(build->template_id);
	build->template_id = g_strdup(build->id);
	vial_custom_templates_add(build->app, custom, g_steal_pointer(&run->template), build->tag, on_added, run);
}

static void on_ready(VialTemplate *template, const GError *error, gpointer data)
{
	VialBuildRun *run = data;

	if (run->is_abandoned)
		return;
	if (error && !run->error)
		run->error = g_error_copy(error);
	if (run->error)
		return end(run);
	vial_build_run_name(run);
}

static void add_layer(VialTemplate *template, const char *layer)
{
	guint count = template->layers ? g_strv_length(template->layers) : 0;

	template->layers = g_renew(char *, template->layers, count + 2);
	template->layers[count] = g_strdup(layer);
	template->layers[count + 1] = NULL;
}

void vial_build_run_bake(VialBuildRun *run)
{
	VialBuild *build = run->build;
	VialTemplate *template = run->template;

	if (build->layer)
		add_layer(template, build->layer);
	if (json_object_size(run->env) > 0) {
		json_t *env = template->env ? json_deep_copy(template->env) : json_object();

		json_object_update(env, run->env);
		json_decref(template->env);
		template->env = env;
	}
	if (run->workdir) {
		g_free(template->workdir);
		template->workdir = g_strdup(run->workdir);
	}
	vial_build_set_phase(build, "baking", build->step);
	vial_build_log_step(build->log, (guint)json_array_size(build->steps), (guint)json_array_size(build->steps));
	vial_build_log_event(build->log, "baking: a fresh boot, the kernels, %s%sthen the checkpoint", template->warm ? "the warm code, " : "",
	                     vial_template_has_start(template) ? "the start command, " : "");
	vial_template_make_ready(build->app, template, build->log, build->timeout_seconds, on_ready, run);
}

/* The sandbox */

static void on_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	VialBuildRun *run = data;

	if (run->is_abandoned)
		return;
	if (error)
		return vial_build_run_fail(run, VIAL_ERROR_UNAVAILABLE, "the sandbox of the build cannot be used: %s", error->message);
	g_clear_pointer(&run->made, vial_sandbox_unref);
	run->sandbox = sandbox;
	if (run->error)
		return vial_build_run_leave(run);
	vial_sandbox_set_ttl(sandbox, 0); /* the build's own time is what ends it */
	vial_build_run_step(run);
}

static void on_created(VialSandbox *sandbox, const GError *error, gpointer data)
{
	VialBuildRun *run = data;

	if (run->is_abandoned)
		return;
	if (error)
		return vial_build_run_fail(run, (VialErrorCode)error->code, "the sandbox of the build could not be made: %s", error->message);
	run->made = vial_sandbox_ref(sandbox);
	if (vial_fault("build.created")) /* it ends before it is the build's */
		vial_sandbox_guest_ended(sandbox, "injected failure");
	vial_sandbox_acquire(sandbox, on_acquired, run);
}

static void create_sandbox(VialBuildRun *run)
{
	VialBuild *build = run->build;
	VialSandboxCreate create = {
		.template_name = run->base_name,
		.from_snapshot = build->is_cached ? run->origin_id : NULL, /* else the base's name leads to it */
		.cpu = build->limits.cpu,
		.memory_mb = build->limits.memory_mb,
		.disk_mb = build->limits.disk_mb,
		.ttl_seconds = -1,
		.idle_seconds = 0,
		.on_idle = -1,
		.network = build->network,
		.build = build->id,
	};

	vial_build_set_phase(build, "starting", 0);
	vial_build_log_event(build->log, "starting a sandbox of %s for the steps", run->base_name);
	run->timer = g_timeout_add_seconds((guint)build->timeout_seconds, on_timeout, run);
	vial_sandboxes_create(build->app, build->principal, &create, on_created, run);
}

/* Beginning */

static gboolean needs_sandbox(const VialBuildRun *run)
{
	const json_t *step;
	gsize i;

	if (run->origin_id)
		return TRUE;
	json_array_foreach (run->build->steps, i, step)
		if (!json_object_get(step, "env"))
			return TRUE;
	return FALSE;
}

/*
 * Equal steps on an equal base make an equal layer. Of secrets only that there were some: a token that was renewed changes nothing. In a snapshot
 * there is also what the warm code made and what was started, and its size.
 */
static char *make_key(const VialBuildRun *run)
{
	static const char *const of_memory[] = { "warm", "start_command", "ready_command", "start_user", "cpu", "memory_mb", "disk_mb" };
	const VialBuild *build = run->build;
	g_autoptr(json_t) steps = json_deep_copy(build->steps);
	g_autoptr(json_t) all = NULL;
	g_autofree char *text = NULL;
	json_t *step;
	gsize i;

	json_array_foreach (steps, i, step)
		json_object_del(step, "line");
	all = json_pack("{s:s, s:O, s:O, s:O*, s:O*}", "base", build->base_hash, "steps", steps, "network", build->network, "secret_names",
	                json_object_get(build->source, "secret_names"), "workdir", json_object_get(build->source, "workdir"));
	for (i = 0; run->origin_id && i < G_N_ELEMENTS(of_memory); i++)
		json_object_set(all, of_memory[i], json_object_get(build->source, of_memory[i]));
	text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	return g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
}

static gboolean take_base(VialBuildRun *run, GError **error)
{
	VialBuild *build = run->build;
	const char *name = json_string_value(json_object_get(build->source, "base"));
	g_auto(VialTemplateBase) base = { 0 };
	VialTemplate *template;

	/* Its name may lead to another one than when the build was asked for. */
	if (!vial_custom_templates_base(build->app, build->project, name, &base, error) ||
	    !vial_template_base_takes_secrets(&base, build->secrets, error))
		return FALSE;
	template = base.template;
	run->origin_id = g_strdup(base.snapshot_id);
	if (!run->origin_id && template->layers && g_strv_length(template->layers) >= VIAL_LAYERS_MAX && needs_sandbox(run))
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "\"%s\" is a template upon %d others already, which is as many as may be; build it anew from one image", name,
		                 VIAL_LAYERS_MAX);
	g_free(build->base_hash);
	build->base_hash = g_strdup(base.hash);
	run->base_name = g_strdup(template->name);
	run->workdir = template->workdir ? g_strdup(template->workdir) : text_dup(json_object_get(build->source, "workdir"));
	run->template = run->origin_id ? NULL : vial_template_derive(template);
	return TRUE;
}

static const char *source_text(const VialBuild *build, const char *name)
{
	return json_string_value(json_object_get(build->source, name));
}

static void describe_template(VialBuildRun *run)
{
	VialBuild *build = run->build;
	VialTemplate *template = run->template;

	if (!template)
		return;
	template->name = vial_build_full_name(build);
	template->project = g_strdup(build->project);
	template->folder = g_strdup(build->id);
	template->warm = text_dup(json_object_get(build->source, "warm"));
	vial_template_set_start(template, source_text(build, "start_command"), source_text(build, "ready_command"), source_text(build, "start_user"));
	template->limits = build->limits;
	template->created_at = vial_time_format(build->created_at_ms);
}

static gboolean take_cached(VialBuildRun *run)
{
	VialBuild *build = run->build;
	const VialCustomTemplate *same = build->no_cache ? NULL : vial_custom_templates_cached(build->app, build->project, run->cache_key);

	if (!same)
		return FALSE;
	build->is_cached = TRUE;
	build->layer = g_strdup(same->layer);
	build->layer_bytes = same->layer_bytes;
	if (run->origin_id) {
		g_free(run->origin_id);
		run->origin_id = g_strdup(same->snapshot_id);
	}
	vial_build_log_event(build->log, "the same steps on the same base were built before: their %s is taken",
	                     run->origin_id ? "snapshot" : "layer");
	return TRUE;
}

void vial_build_run(VialBuild *build)
{
	VialBuildRun *run = g_new0(VialBuildRun, 1);

	run->build = build;
	run->env = json_object();
	run->started_ms = vial_time_monotonic_ms();
	build->run = run;
	if (vial_build_free_bytes(build->app) <= VIAL_BUILD_RESERVE_BYTES)
		return vial_build_run_fail(run, VIAL_ERROR_NO_SPACE, "the disk of this Vial is nearly full: there is no room for a build");
	if (!take_base(run, &run->error))
		return end(run);
	describe_template(run);
	run->cache_key = make_key(run);
	if ((needs_sandbox(run) && !take_cached(run)) || run->origin_id)
		create_sandbox(run);
	else
		vial_build_run_step(run);
}

void vial_build_run_each_layer(VialBuild *build, void (*each)(const char *layer, gpointer data), gpointer data)
{
	char **layers = build->run && build->run->template ? build->run->template->layers : NULL;

	for (guint i = 0; layers && layers[i]; i++)
		each(layers[i], data);
}

gboolean vial_build_run_is_packing(const VialBuild *build)
{
	return build->run && build->run->is_taking;
}

gboolean vial_build_run_is_naming(const VialBuild *build)
{
	return build->run && build->run->is_naming;
}

void vial_build_run_free(VialBuild *build)
{
	VialBuildRun *run = g_steal_pointer(&build->run);

	if (!run)
		return;
	g_clear_pointer(&run->made, vial_sandbox_unref);
	g_clear_pointer(&run->sandbox, vial_sandbox_unref);
	run_free(run);
}
