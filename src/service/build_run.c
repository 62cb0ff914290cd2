/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The course of one build:
 *
 *     space -> cached? ------------------------------------------> bake -> names
 *                    \-> sandbox -> step 1 … n -> layer -> sandbox gone -/
 *
 * and on a base that was made out of a sandbox, whose memory goes on in what is built:
 *
 *     space -> sandbox of the base -> step 1 … n -> warm code -> snapshot -> names -> sandbox gone
 *          \-> sandbox of a snapshot with equal steps ------------/
 *
 * The sandbox is an ordinary one of the base, with the build's network, sizes and its owner's ceilings and quotas, except that nobody sees it. Its
 * steps get secrets in their environment and nowhere else. A template of layers is baked from a fresh boot of base and layer: nothing of the
 * sandbox's memory gets into it. Whatever goes wrong, the sandbox is deleted before the build is over.
 *
 * A step may print as much as it likes: once the log is full its output is read no faster than PACE_BYTES in PACE_MS, so that it holds up nobody
 * else.
 */
#include <string.h>
#include <sys/statvfs.h>

#include "service/builds_private.h"
#include "service/custom_templates_private.h"
#include "service/layer.h"
#include "service/sandbox_private.h"
#include "service/template_private.h"
#include "util/fault.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/tree.h"
#include "wire/wire.h"

#define PACE_MS 20
#define PACE_BYTES (1024 * 1024)
/* What a build leaves of the disk. */
#define RESERVE_BYTES (INT64_C(256) << 20)

typedef struct VialBuildRun {
	VialBuild *build;
	VialTemplate *template; /* what it is to become; NULL: a snapshot */
	char *base_name;        /* the base's own */
	char *origin_id;        /* the snapshot that its sandbox is made of; NULL: the base is files alone */
	char *snapshot_id;      /* what it has become; NULL: not yet, or layers */
	char *cache_key;
	json_t *env; /* of ENV so far */
	char *workdir;
	VialSandbox *sandbox; /* held; NULL: none yet, or no more */
	VialStream *stream;   /* of the step under way */
	gboolean is_taking;   /* the layer; or the warm code runs in the sandbox */
	gboolean is_named;    /* the template is there */
	guint next;           /* step */
	guint timer;          /* the whole build's */
	guint pace;
	gsize owed; /* printed bytes whose credit is not given back yet */
	gint64 started_ms;
	GError *error;         /* why it fails, while its sandbox is being deleted */
	gboolean is_stopping;  /* cancelled or out of time: the first error that comes is this one's doing */
	gboolean is_abandoned; /* viald stops: the next one tells of it */
} Run;

static void next_step(Run *run);
static void bake(Run *run);

static char *text_dup(const json_t *value)
{
	return g_strdup(json_string_value(value));
}

static void run_free(Run *run)
{
	g_clear_handle_id(&run->timer, g_source_remove);
	g_clear_handle_id(&run->pace, g_source_remove);
	vial_stream_free(run->stream);
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

static void end(Run *run)
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
	Run *run = data;

	if (run->is_abandoned)
		return;
	if (run->error || run->is_named)
		end(run);
	else
		bake(run);
}

/* Its sandbox is of no more use; then it ends, with run->error, or is baked. */
static void leave_sandbox(Run *run)
{
	VialSandbox *sandbox = g_steal_pointer(&run->sandbox);

	g_clear_handle_id(&run->timer, g_source_remove);
	g_clear_handle_id(&run->pace, g_source_remove);
	g_clear_pointer(&run->stream, vial_stream_free);
	if (!sandbox)
		return on_deleted(NULL, NULL, run);
	vial_sandbox_ref(sandbox);
	vial_sandbox_release(sandbox);
	vial_sandbox_delete(sandbox, on_deleted, run);
	vial_sandbox_unref(sandbox);
}

static void fail(Run *run, VialErrorCode code, const char *format, ...) G_GNUC_PRINTF(3, 4);

static void fail(Run *run, VialErrorCode code, const char *format, ...)
{
	va_list args;

	if (!run->error) {
		g_autofree char *text = NULL;

		va_start(args, format);
		text = g_strdup_vprintf(format, args);
		va_end(args);
		run->error = g_error_new_literal(VIAL_ERROR, (int)code, text);
	}
	leave_sandbox(run);
}

/* Stops what is under way; who waits for it then ends the build. */
static void interrupt(Run *run, VialErrorCode code, const char *format, ...) G_GNUC_PRINTF(3, 4);

static void interrupt(Run *run, VialErrorCode code, const char *format, ...)
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
	if (run->stream)
		leave_sandbox(run);
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
	Run *run = build->run;

	if (!run)
		return;
	run->is_abandoned = TRUE;
	g_clear_handle_id(&run->timer, g_source_remove);
	g_clear_handle_id(&run->pace, g_source_remove);
	g_clear_pointer(&run->stream, vial_stream_free);
}

static gboolean on_timeout(gpointer data)
{
	Run *run = data;

	run->timer = 0;
	run->build->last_lines = run->build->last_lines ? run->build->last_lines : vial_build_log_last(run->build->log);
	interrupt(run, VIAL_ERROR_TIMEOUT, "the build did not end within its %" G_GINT64_FORMAT " seconds (timeout_seconds): it was in step %u of %u",
	          run->build->timeout_seconds, run->build->step, (guint)json_array_size(run->build->steps));
	return G_SOURCE_REMOVE;
}

/* Names */

static void on_added(const GError *error, gpointer data)
{
	Run *run = data;

	if (error && !run->error)
		run->error = g_error_copy(error);
	run->is_named = TRUE;
	leave_sandbox(run);
}

static VialCustomTemplate *make_custom(Run *run)
{
	const VialBuild *build = run->build;
	VialCustomTemplate *custom = vial_custom_template_new(build->id, build->project, build->key_id, build->name);

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

/* It takes its name, and is the build's: a failure to record it removes what it is made of. */
static void add_template(Run *run)
{
	VialBuild *build = run->build;
	VialCustomTemplate *custom = make_custom(run);

	g_free(build->template_id);
	build->template_id = g_strdup(build->id);
	vial_custom_templates_add(build->app, custom, g_steal_pointer(&run->template), build->tag, on_added, run);
}

static void on_ready(VialTemplate *template, const GError *error, gpointer data)
{
	Run *run = data;

	if (run->is_abandoned)
		return;
	if (error && !run->error)
		run->error = g_error_copy(error);
	if (run->error)
		return end(run);
	add_template(run);
}

static void add_layer(VialTemplate *template, const char *layer)
{
	guint count = template->layers ? g_strv_length(template->layers) : 0;

	template->layers = g_renew(char *, template->layers, count + 2);
	template->layers[count] = g_strdup(layer);
	template->layers[count + 1] = NULL;
}

static void bake(Run *run)
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
	vial_build_log_event(build->log, template->warm ? "baking: a fresh boot, the kernels, the warm code, then the checkpoint"
	                                                : "baking: a fresh boot, the kernels, then the checkpoint");
	vial_template_make_ready(build->app, template, on_ready, run);
}

/* The layer */

static gint64 free_bytes(VialApp *app)
{
	struct statvfs info;
	gint64 left = statvfs(app->config->data_dir, &info) == 0 ? (gint64)info.f_bavail * (gint64)info.f_frsize : G_MAXINT64;

	return vial_fault_measure("build.space", left);
}

static void on_layer(const char *hash, gint64 size_bytes, const GError *error, gpointer data)
{
	Run *run = data;
	VialBuild *build = run->build;

	if (run->is_abandoned)
		return;
	run->is_taking = FALSE;
	if (error)
		return fail(run, VIAL_ERROR_UNAVAILABLE, "what the steps have made could not be kept: %s", error->message);
	if (run->error)
		return leave_sandbox(run);
	build->layer = g_strdup(hash);
	build->layer_bytes = size_bytes;
	vial_build_log_event(build->log, "the layer has %" G_GINT64_FORMAT " bytes", size_bytes);
	vial_build_store(build, NULL, NULL);
	leave_sandbox(run);
}

static void take_layer(Run *run)
{
	VialBuild *build = run->build;
	g_autofree char *dir = vial_layers_dir(build->app);
	gint64 room = free_bytes(build->app) - RESERVE_BYTES;

	vial_build_set_phase(build, "packing", build->step);
	vial_build_log_event(build->log, "packing what the steps have made");
	if (room <= 0)
		return fail(run, VIAL_ERROR_NO_SPACE, "the disk of this Vial is nearly full: there is no room for what the steps have made");
	if (!run->sandbox->instance)
		return fail(run, VIAL_ERROR_UNAVAILABLE, "the sandbox of the build has ended");
	run->is_taking = TRUE;
	vial_layer_take(build->app, run->sandbox->instance, dir, MIN(room, VIAL_LAYER_MAX_BYTES), on_layer, run);
}

/* The snapshot, of a base with a memory */

static void on_snapshot(VialSnapshot *snapshot, const GError *error, gpointer data)
{
	Run *run = data;

	if (run->is_abandoned)
		return;
	if (error)
		return fail(run, (VialErrorCode)error->code, "what the steps have made could not be kept: %s", error->message);
	run->snapshot_id = g_strdup(snapshot->id);
	if (run->error)
		return leave_sandbox(run);
	vial_fault("build.snapshot");
	/* Its sandbox stays until the template is there: after a crash in between, that is how the snapshot is known to be nobody's (builds.c). */
	add_template(run);
}

/* What a sandbox of it finds: the ENV and the WORKDIR of the steps are from now on those of this one. */
static void take_snapshot(Run *run)
{
	VialBuild *build = run->build;
	VialSandbox *sandbox = run->sandbox;

	if (free_bytes(build->app) <= RESERVE_BYTES)
		return fail(run, VIAL_ERROR_NO_SPACE, "the disk of this Vial is nearly full: there is no room for what the steps have made");
	json_object_update(sandbox->env, run->env);
	g_free(sandbox->workdir);
	sandbox->workdir = g_strdup(run->workdir);
	vial_build_set_phase(build, "packing", build->step);
	vial_build_log_event(build->log, "taking a snapshot of the sandbox as the steps have left it");
	vial_snapshot_take(sandbox, build->principal, NULL, on_snapshot, run);
}

static void on_warm(const char *problem, gpointer data)
{
	Run *run = data;

	if (run->is_abandoned)
		return;
	run->is_taking = FALSE;
	if (run->error)
		return leave_sandbox(run);
	if (problem)
		return fail(run, VIAL_ERROR_UNAVAILABLE, "%s", problem);
	take_snapshot(run);
}

static void warm_up(Run *run)
{
	const char *code = json_string_value(json_object_get(run->build->source, "warm"));

	if (!code || run->build->is_cached)
		return take_snapshot(run);
	vial_build_log_event(run->build->log, "running the warm code");
	run->is_taking = TRUE;
	vial_warmup(vial_sandbox_channel(run->sandbox), code, on_warm, run);
}

/* Steps */

static gboolean on_pace(gpointer data)
{
	Run *run = data;
	gsize piece = MIN(run->owed, PACE_BYTES);

	run->owed -= piece;
	if (piece > 0)
		vial_stream_consumed(run->stream, piece);
	if (run->owed > 0)
		return G_SOURCE_CONTINUE;
	run->pace = 0;
	return G_SOURCE_REMOVE;
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	Run *run = data;
	gsize size;
	const void *printed = g_bytes_get_data(bytes, &size);

	vial_build_log_output(run->build->log, channel == VIAL_WIRE_STDERR, printed, size);
	if (!vial_build_log_is_full(run->build->log)) {
		vial_stream_consumed(stream, size);
		return;
	}
	run->owed += size;
	if (!run->pace)
		run->pace = g_timeout_add(PACE_MS, on_pace, run);
}

static void on_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	vial_stream_consumed(stream, size);
}

static void fail_step(Run *run, const char *how)
{
	VialBuild *build = run->build;

	build->last_lines = vial_build_log_last(build->log);
	vial_build_log_step(build->log, build->step, (guint)json_array_size(build->steps));
	fail(run, VIAL_ERROR_INVALID, "step %u of %u failed: %s", build->step, (guint)json_array_size(build->steps), how);
}

/* What the agent says of a command's end; it is believed as little as anything of a guest. */
static void judge(Run *run, json_t *result)
{
	const json_t *code = json_object_get(result, "exit_code"), *signal = json_object_get(result, "signal");
	g_autofree char *how = NULL;

	if (!json_is_integer(code) || json_integer_value(code) < -255 || json_integer_value(code) > 255 || (signal && !json_is_string(signal))) {
		vial_channel_violation(vial_sandbox_channel(run->sandbox), "a command's end without an exit code");
		return fail(run, VIAL_ERROR_GATEWAY, "the sandbox of the build answered with nonsense");
	}
	if (json_integer_value(code) == 0 && !signal)
		return next_step(run);
	run->build->exit_code = (int)json_integer_value(code) & 255;
	if (json_is_true(json_object_get(result, "oom")))
		how = g_strdup("it was ended because memory ran out");
	else if (json_is_true(json_object_get(result, "zone_lost")))
		how = g_strdup("it ended all processes of its sandbox, itself too");
	else if (signal)
		how = g_strdup_printf("it was ended by the signal %.16s", json_string_value(signal));
	else
		how = g_strdup_printf("it exited with %d", run->build->exit_code);
	fail_step(run, how);
}

static void on_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	Run *run = data;

	g_clear_pointer(&run->stream, vial_stream_free);
	g_clear_handle_id(&run->pace, g_source_remove);
	run->owed = 0;
	if (error && vial_sandbox_channel(run->sandbox)) /* the command could not be started: no such program, no such folder */
		return fail_step(run, error->message);
	if (error)
		return fail(run, VIAL_ERROR_UNAVAILABLE, "the sandbox of the build ended in step %u: %s", run->build->step,
		            run->sandbox->reason ? run->sandbox->reason : error->message);
	judge(run, result);
}

/* Secrets are in this environment only: not in the sandbox's, which its memory would keep, and not in anything that is written down. */
static json_t *step_env(Run *run, const json_t *step)
{
	json_t *env = json_object();

	json_object_update(env, json_object_get(step, "args"));
	json_object_update(env, run->env);
	if (json_object_get(step, "run"))
		json_object_update(env, run->build->secrets);
	return env;
}

static json_t *step_argv(const json_t *step)
{
	json_t *command = json_object_get(step, "run");
	const char *workdir = json_string_value(json_object_get(step, "workdir"));

	if (json_is_array(command))
		return json_incref(command);
	if (command)
		return json_pack("[s, s, O]", "/bin/sh", "-c", command);
	/* Who works there is `user`. */
	return json_pack("[s, s, s, s, s]", "/bin/sh", "-c", "[ -d \"$1\" ] || install -d -o user -g user -- \"$1\"", "sh", workdir);
}

static void execute(Run *run, const json_t *step)
{
	static const VialStreamEvents events = { .data = on_data, .event = on_event, .closed = on_closed };
	json_t *open = json_pack("{s:s, s:o, s:s, s:o}", "op", "exec", "argv", step_argv(step), "user", "root", "env", step_env(run, step));

	if (run->workdir && json_object_get(step, "run"))
		json_object_set_new(open, "cwd", json_string(run->workdir));
	run->stream = vial_stream_open(vial_sandbox_channel(run->sandbox), open, &events, run);
}

/* What the log says of it. */
static char *describe(const json_t *step)
{
	json_t *command = json_object_get(step, "run"), *env = json_object_get(step, "env");
	GString *text = g_string_new(command ? "RUN " : env ? "ENV" : "WORKDIR ");
	const char *name;
	json_t *value;
	gsize i;

	if (json_is_array(command))
		json_array_foreach (command, i, value)
			g_string_append_printf(text, "%s%s", i ? " " : "", json_string_value(value));
	else if (command)
		g_string_append(text, json_string_value(command));
	json_object_foreach (env, name, value)
		g_string_append_printf(text, " %s=%s", name, json_string_value(value));
	if (!command && !env)
		g_string_append(text, json_string_value(json_object_get(step, "workdir")));
	if (text->len > 500) {
		g_autofree char *valid = NULL;

		g_string_truncate(text, 500);
		valid = g_utf8_make_valid(text->str, -1);
		g_string_printf(text, "%s...", valid);
	}
	return g_string_free(text, FALSE);
}

/* Returns TRUE when it takes the sandbox's part, and goes on when that is done. */
static gboolean do_step(Run *run, const json_t *step)
{
	const char *workdir = json_string_value(json_object_get(step, "workdir"));
	json_t *env = json_object_get(step, "env");

	if (env)
		json_object_update(run->env, env);
	if (workdir) {
		g_free(run->workdir);
		run->workdir = g_strdup(workdir);
	}
	if (run->build->is_cached || env)
		return FALSE;
	execute(run, step);
	return TRUE;
}

static void next_step(Run *run)
{
	VialBuild *build = run->build;
	guint total = (guint)json_array_size(build->steps);

	while (run->next < total) {
		const json_t *step = json_array_get(build->steps, run->next++);
		g_autofree char *text = describe(step);

		vial_build_log_step(build->log, run->next, total);
		vial_build_log_event(build->log, "step %u of %u: %s%s", run->next, total, text,
		                     build->is_cached && !json_object_get(step, "env") ? " (cached)" : "");
		vial_build_set_phase(build, "steps", run->next);
		if (do_step(run, step))
			return;
	}
	vial_build_log_step(build->log, total, total);
	if (run->origin_id)
		warm_up(run);
	else if (run->sandbox)
		take_layer(run);
	else
		bake(run);
}

/* The sandbox */

static void on_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Run *run = data;

	if (run->is_abandoned)
		return;
	if (error)
		return fail(run, VIAL_ERROR_UNAVAILABLE, "the sandbox of the build cannot be used: %s", error->message);
	run->sandbox = sandbox;
	if (run->error)
		return leave_sandbox(run);
	vial_sandbox_set_ttl(sandbox, 0); /* the build's own time is what ends it */
	next_step(run);
}

static void on_created(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Run *run = data;

	if (run->is_abandoned)
		return;
	if (error)
		return fail(run, (VialErrorCode)error->code, "the sandbox of the build could not be made: %s", error->message);
	vial_sandbox_acquire(sandbox, on_acquired, run);
}

static void create_sandbox(Run *run)
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

static gboolean needs_sandbox(const Run *run)
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
 * there is also what the warm code made, and its size.
 */
static char *make_key(const Run *run)
{
	static const char *const of_memory[] = { "warm", "cpu", "memory_mb", "disk_mb" };
	const VialBuild *build = run->build;
	g_autoptr(json_t) steps = json_deep_copy(build->steps);
	g_autoptr(json_t) all = NULL;
	g_autofree char *text = NULL;
	json_t *step;
	gsize i;

	json_array_foreach (steps, i, step)
		json_object_del(step, "line");
	all = json_pack("{s:s, s:O, s:O, s:O*}", "base", build->base_hash, "steps", steps, "network", build->network, "secret_names",
	                json_object_get(build->source, "secret_names"));
	for (i = 0; run->origin_id && i < G_N_ELEMENTS(of_memory); i++)
		json_object_set(all, of_memory[i], json_object_get(build->source, of_memory[i]));
	text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	return g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
}

static gboolean take_base(Run *run, GError **error)
{
	VialBuild *build = run->build;
	const char *name = json_string_value(json_object_get(build->source, "base"));
	g_auto(VialTemplateBase) base = { 0 };
	VialTemplate *template;

	if (!vial_custom_templates_base(build->app, build->project, name, &base, error))
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
	run->workdir = g_strdup(template->workdir);
	run->template = run->origin_id ? NULL : vial_template_derive(template);
	return TRUE;
}

static void describe_template(Run *run)
{
	VialBuild *build = run->build;
	VialTemplate *template = run->template;

	if (!template)
		return;
	template->name = vial_build_full_name(build);
	template->project = g_strdup(build->project);
	template->folder = g_strdup(build->id);
	template->warm = text_dup(json_object_get(build->source, "warm"));
	template->limits = build->limits;
	template->created_at = vial_time_format(build->created_at_ms);
}

static gboolean take_cached(Run *run)
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
	Run *run = g_new0(Run, 1);

	run->build = build;
	run->env = json_object();
	run->started_ms = vial_time_monotonic_ms();
	build->run = run;
	if (free_bytes(build->app) <= RESERVE_BYTES)
		return fail(run, VIAL_ERROR_NO_SPACE, "the disk of this Vial is nearly full: there is no room for a build");
	if (!take_base(run, &run->error))
		return end(run);
	describe_template(run);
	run->cache_key = make_key(run);
	if ((needs_sandbox(run) && !take_cached(run)) || run->origin_id)
		create_sandbox(run);
	else
		next_step(run);
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

void vial_build_run_free(VialBuild *build)
{
	Run *run = g_steal_pointer(&build->run);

	if (!run)
		return;
	g_clear_pointer(&run->sandbox, vial_sandbox_unref);
	run_free(run);
}
