/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bakes templates: boot cold, warm the kernels, run what the template wants run, freeze, checkpoint, try it out, rename into place. One at a time; a
 * failed one is reported and its sandboxes then boot cold, unless they are to find something running.
 */
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#include "service/boot.h"
#include "service/manifest.h"
#include "service/prune.h"
#include "service/start.h"
#include "service/template_private.h"
#include "service/trial.h"
#include "util/id.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/tree.h"
#include "util/worker.h"

#define WARM_TIMEOUT_MS 180000
#define FREEZE_TIMEOUT_MS 30000

typedef struct VialBake {
	VialApp *app;
	GPtrArray *queue; /* VialTemplate, borrowed */
	guint next;
	guint failures;
	gboolean is_of_all;
	char *last_problem;
	VialBuildLog *log;
	gint64 start_seconds;
	VialBaked done;
	gpointer data;
	/* the one being baked */
	VialTemplate *template;
	char *id;
	char *image; /* temporary name of the checkpoint */
	VialInstance *instance;
	gint64 started_ms;
	VialStart *start;
	guint timer;
	GError *problem;
	void (*given_up)(gpointer data); /* set: the next sandbox is not begun */
	gpointer given_up_data;
} Bake;

static void bake_next(Bake *bake);
static void bake_begin(Bake *bake);

static void say(Bake *bake, const char *step)
{
	g_print("  %s: %s (%.1f s)\n", bake->template->name, step, (double)(vial_time_monotonic_ms() - bake->started_ms) / 1000.0);
}

static void swept(const char *reason, gpointer data)
{
	bake_next(data);
}

char *vial_template_problem_line(const char *problem)
{
	return g_strndup(problem, strcspn(problem, "\n"));
}

static void leave(Bake *bake, const char *problem)
{
	g_autofree char *id = g_steal_pointer(&bake->id);

	g_clear_handle_id(&bake->timer, g_source_remove);
	g_clear_pointer(&bake->start, vial_start_free);
	if (problem) {
		g_autofree char *line = vial_template_problem_line(problem);

		bake->failures++;
		g_free(bake->last_problem);
		bake->last_problem = g_strdup(problem);
		say(bake, "not baked");
		vial_log_error("template", "baking failed", "template", bake->template->name, "error", line);
		vial_tree_remove(bake->image);
	}
	if (bake->instance)
		vial_instance_stop(bake->instance);
	g_clear_pointer(&bake->instance, vial_instance_free);
	g_clear_pointer(&bake->image, g_free);
	vial_sweep(bake->app, id, swept, bake);
}

static void seal_work(gpointer data)
{
	Bake *bake = data;
	g_autoptr(json_t) facts =
		json_pack("{s:s, s:s, s:s}", "kind", "template", "template", bake->template->name, "template_hash", bake->template->hash);

	vial_manifest_seal(bake->app->manifests, bake->image, facts, &bake->problem);
}

/* Images may be shared: another viald that baked the same beside us may have been first, and its checkpoint is as good. */
static gboolean is_there_already(Bake *bake, int reason)
{
	if ((reason != EEXIST && reason != ENOTEMPTY) || !vial_template_take_checkpoint(bake->app, bake->app->templates, bake->template))
		return FALSE;
	say(bake, "another viald has baked it meanwhile");
	vial_tree_remove(bake->image);
	return TRUE;
}

static void seal_done(gpointer data)
{
	Bake *bake = data;
	g_autofree char *target = vial_template_checkpoint_dir(bake->app, bake->template);
	g_autoptr(GError) problem = g_steal_pointer(&bake->problem);

	if (problem)
		return leave(bake, problem->message);
	/* One that is there and may not be used was removed by looking at it: then there is room for ours. */
	if (rename(bake->image, target) < 0) {
		if (is_there_already(bake, errno))
			return leave(bake, NULL);
		if (rename(bake->image, target) < 0)
			return leave(bake, g_strerror(errno));
	}
	vial_manifest_moved(bake->app->manifests, bake->image, target);
	bake->template->hold = vial_images_hold(target);
	bake->template->checkpoint = g_steal_pointer(&target);
	say(bake, "baked");
	leave(bake, NULL);
}

static void on_tried(gpointer data)
{
	vial_worker_run(seal_work, seal_done, data);
}

static VialBootSpec boot_spec(const Bake *bake)
{
	return (VialBootSpec){
		.sandbox_id = bake->id,
		.host_id = bake->id,
		.rootfs = bake->template->rootfs,
		.runtime_dir = bake->app->templates->runtime_dir,
		.layers = (const char *const *)bake->template->layers,
		.workdir = bake->template->workdir,
		.env = bake->template->env,
		.limits = bake->template->limits,
	};
}

static void on_checkpointed(json_t *result, const GError *error, gpointer data)
{
	Bake *bake = data;
	VialBootSpec spec = boot_spec(bake);

	if (error)
		return leave(bake, error->message);
	spec.image = bake->image;
	vial_trial(bake->app, &spec, on_tried, bake);
}

static void on_frozen(VialInstance *instance, gpointer data)
{
	Bake *bake = data;

	g_clear_handle_id(&bake->timer, g_source_remove);
	if (g_mkdir_with_parents(bake->image, 0700) < 0)
		return leave(bake, g_strerror(errno));
	vial_instance_checkpoint(bake->instance, bake->image, TRUE, on_checkpointed, bake);
}

static gboolean on_timeout(gpointer data)
{
	Bake *bake = data;

	bake->timer = 0;
	leave(bake, "the agent did not freeze in time");
	return G_SOURCE_REMOVE;
}

static void on_running(const char *problem, gpointer data)
{
	Bake *bake = data;

	if (problem)
		return leave(bake, problem);
	g_clear_pointer(&bake->start, vial_start_free);
	say(bake, "kernels are warm, writing the checkpoint");
	bake->timer = vial_time_add_deadline(FREEZE_TIMEOUT_MS, on_timeout, bake);
	vial_channel_send_freeze(vial_instance_channel(bake->instance));
}

static VialChannel *channel_of(gpointer data)
{
	const Bake *bake = data;

	return vial_instance_channel(bake->instance);
}

/* The last that is done: what the start command finds here it finds in every sandbox. */
static void on_warmed_up(const char *problem, gpointer data)
{
	Bake *bake = data;
	const VialTemplate *template = bake->template;
	VialStartSpec spec = {
		.command = template->start_command,
		.ready = template->ready_command,
		.user = template->start_user,
		.limit_seconds = bake->start_seconds,
		.log = bake->log,
		.channel = channel_of,
		.done = on_running,
		.data = bake,
	};

	if (problem || !vial_template_has_start(template))
		return on_running(problem, bake);
	say(bake, "starting what its sandboxes find running");
	bake->start = vial_start_begin(&spec);
}

static void on_warm(json_t *result, const GError *error, gpointer data)
{
	Bake *bake = data;

	if (error)
		return leave(bake, error->message);
	if (!bake->template->warm)
		return on_warmed_up(NULL, bake);
	say(bake, "running its warm code");
	vial_warmup(vial_instance_channel(bake->instance), bake->template->warm, on_warmed_up, bake);
}

static void on_ended(VialInstance *instance, const char *reason, gpointer data)
{
	/* Whatever waits on the channel has been told already and leaves from there. */
}

static void on_booted(VialInstance *instance, const GError *error, gpointer data)
{
	static const VialInstanceEvents events = { .frozen = on_frozen, .ended = on_ended };
	Bake *bake = data;

	if (error)
		return leave(bake, error->message);
	bake->instance = instance;
	if (bake->given_up)
		return leave(bake, "viald stops");
	vial_instance_set_events(instance, &events, bake);
	say(bake, "booted, warming the kernels");
	vial_channel_call(vial_instance_channel(instance),
	                  json_pack("{s:s, s:b, s:[s, s, s]}", "op", "warm", "spares", 1, "languages", "python", "javascript", "bash"),
	                  vial_time_scaled_ms(WARM_TIMEOUT_MS), on_warm, bake);
}

static void bake_free(Bake *bake)
{
	g_ptr_array_unref(bake->queue);
	g_free(bake->last_problem);
	vial_build_log_unref(bake->log);
	g_free(bake);
}

/* Baked before, or by somebody else while we were busy with the one before it. */
static gboolean is_ready(Bake *bake, VialTemplate *template)
{
	return template->checkpoint || (bake->next > 0 && vial_template_take_checkpoint(bake->app, bake->app->templates, template));
}

/* It is over, or it will not begin. Whoever waits behind it has his turn first, so that he is not overtaken by what `done` begins. */
static void finish(Bake *bake)
{
	VialTemplates *templates = bake->app->templates;
	void (*given_up)(gpointer data) = bake->given_up;
	gpointer given_up_data = bake->given_up_data;
	Bake *next = NULL;

	if (templates->bake == bake) {
		templates->bake = NULL;
		templates->is_baking_all = FALSE;
		next = g_queue_pop_head(&templates->waiting_bakes);
	}
	if (next)
		bake_begin(next);
	if (!given_up || !bake->is_of_all)
		bake->done(given_up ? MAX(bake->failures, 1) : bake->failures, given_up ? "viald stops" : bake->last_problem, bake->data);
	bake_free(bake);
	if (given_up)
		given_up(given_up_data);
}

static void bake_next(Bake *bake)
{
	GPtrArray *queue = bake->queue;
	g_autofree char *home = NULL;
	VialBootSpec spec;

	while (bake->next < queue->len && is_ready(bake, queue->pdata[bake->next]))
		bake->next++;
	if (bake->given_up || bake->next >= queue->len)
		return finish(bake);
	bake->template = queue->pdata[bake->next++];
	bake->id = vial_id_new();
	home = vial_template_home(bake->app, bake->template);
	bake->image = g_strdup_printf("%s/baking-%s", home, bake->id);
	bake->started_ms = vial_time_monotonic_ms();
	say(bake, "baking, which takes some seconds and happens once");
	spec = boot_spec(bake);
	vial_boot(bake->app, &spec, on_booted, bake);
}

static void bake_begin(Bake *bake)
{
	VialTemplates *templates = bake->app->templates;

	templates->bake = bake;
	templates->is_baking_all = bake->is_of_all;
	bake_next(bake);
}

static Bake *bake_new(VialApp *app, GPtrArray *queue, VialBaked done, gpointer data)
{
	Bake *bake = g_new0(Bake, 1);

	bake->app = app;
	bake->queue = queue;
	bake->done = done;
	bake->data = data;
	return bake;
}

static void bake_push(Bake *bake)
{
	VialTemplates *templates = bake->app->templates;

	if (templates->bake)
		g_queue_push_tail(&templates->waiting_bakes, bake);
	else
		bake_begin(bake);
}

void vial_templates_bake(VialApp *app, VialBaked done, gpointer data)
{
	GPtrArray *all = app->templates->all, *queue = g_ptr_array_new();
	Bake *bake = bake_new(app, queue, done, data);

	/* Custom ones are in the list only when they are ready, and may leave it at any time. */
	for (guint i = 0; i < all->len; i++)
		if (!((VialTemplate *)all->pdata[i])->folder)
			g_ptr_array_add(queue, all->pdata[i]);
	bake->is_of_all = TRUE;
	bake_push(bake);
}

void vial_template_bake(VialApp *app, VialTemplate *template, VialBuildLog *log, gint64 start_seconds, VialBaked done, gpointer data)
{
	Bake *bake;

	if (app->templates->is_ending)
		return done(1, "viald stops", data);
	bake = bake_new(app, g_ptr_array_new(), done, data);
	g_ptr_array_add(bake->queue, template);
	bake->log = log ? vial_build_log_ref(log) : NULL;
	bake->start_seconds = start_seconds;
	bake_push(bake);
}

void vial_templates_end_baking(VialTemplates *templates, void (*done)(gpointer data), gpointer data)
{
	Bake *bake = templates->bake, *waiting;

	templates->is_ending = TRUE;
	vial_templates_unwatch(templates);
	while ((waiting = g_queue_pop_head(&templates->waiting_bakes))) {
		waiting->done(1, "viald stops", waiting->data);
		bake_free(waiting);
	}
	if (!bake) {
		done(data);
		return;
	}
	bake->given_up = done;
	bake->given_up_data = data;
	/* Once the guest runs, its end makes every step that waits for it fail and come to bake_next(); until then its boot does. */
	if (bake->instance)
		vial_instance_stop(bake->instance);
}
