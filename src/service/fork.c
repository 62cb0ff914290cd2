/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of one instant, in one of two ways. Where the host process can fork itself (a microVM), everything a child needs is made ready while
 * the parent still runs, then: freeze -> fork -> HELLO to each, the parent too. Elsewhere: one checkpoint, n restores; the checkpoint lives in
 * forks/TREE only until the last child has loaded it. Either way parent and children cannot see each other's writes, and the parent goes on
 * whatever becomes of them.
 */
#include "service/fork.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#include "service/boot.h"
#include "service/freeze.h"
#include "service/layer.h"
#include "service/pool.h"
#include "service/sandbox_private.h"
#include "service/slots.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/id.h"
#include "util/time.h"
#include "util/tree.h"
#include "util/worker.h"

typedef struct {
	VialSandbox *parent;
	char *tree_id;
	char *image;
	guint n_children;
	guint pending;
	json_t *metadata;
	char *key_id;
	gint64 ttl_seconds, trial_seconds; /* trial: 0, none */
	gint64 rest_seconds;
	VialPromise *promise;
	GPtrArray *children; /* VialSandbox or NULL, by index */
	GPtrArray *errors;   /* GError or NULL, by index */
	GPtrArray *prepared; /* Child, made ready ahead of a host process that forks itself; borrowed */
	VialCallDone acted;  /* freeze.c's */
	gpointer acted_data;
	VialForkDone done;
	gpointer data;
} Fork;

/* The coming into being of one child: a transition of the child, so that whoever wants it deleted or used meanwhile waits for its end. */
typedef struct {
	VialTransition base;
	Fork *fork;
	guint index;
	gint64 started_ms;
	/* for a host process that forks itself */
	VialLaunch launch;
	char *dir;
	char **layers;
	int tap_fd;
	GError *error; /* it could not be made ready */
} Child;

static void free_error(gpointer error)
{
	if (error)
		g_error_free(error);
}

static void unref_child(gpointer child)
{
	vial_sandbox_unref(child);
}

static void fork_end(Fork *fork, const GError *error)
{
	fork->done(fork->tree_id, fork->children, fork->errors, error, fork->data);
	vial_tree_remove_later(fork->image);
	g_ptr_array_unref(fork->children);
	g_ptr_array_unref(fork->errors);
	g_ptr_array_unref(fork->prepared);
	vial_sandbox_unref(fork->parent);
	json_decref(fork->metadata);
	g_free(fork->key_id);
	g_free(fork->tree_id);
	g_free(fork->image);
	g_free(fork);
}

/* One of those that `pending` counts is done: a child, or the parent's own part. */
static void fork_step(Fork *fork)
{
	if (--fork->pending == 0)
		fork_end(fork, NULL);
}

static void child_settle(VialTransition *transition, const GError *error)
{
	g_autofree Child *child = (Child *)transition;
	Fork *fork = child->fork;

	if (error)
		fork->errors->pdata[child->index] = g_error_copy(error);
	else
		fork->children->pdata[child->index] = vial_sandbox_ref(transition->sandbox);
	vial_fd_clear(&child->tap_fd);
	g_clear_error(&child->error);
	g_free(child->dir);
	g_strfreev(child->layers);
	fork_step(fork);
}

/* As with every create: reported only when it would outlive our own crash. */
static void on_child_stored(const GError *error, gpointer data)
{
	vial_transition_end(data, NULL);
}

static void on_child_booted(VialInstance *instance, const GError *error, gpointer data)
{
	Child *child = data;
	VialSandbox *sandbox = child->base.sandbox;

	if (error) {
		vial_sandbox_set_state(sandbox, VIAL_STATE_DELETED, NULL);
		vial_sandbox_forget(sandbox);
		return vial_transition_end(&child->base, error);
	}
	sandbox->boot_ms = vial_time_monotonic_ms() - child->started_ms;
	vial_sandbox_set_running(sandbox, instance);
	vial_sandbox_store_then(sandbox, on_child_stored, child);
}

static VialSandbox *make_sandbox(Fork *fork)
{
	VialSandbox *parent = fork->parent;
	g_autofree char *id = vial_id_new();
	VialSandbox *child = vial_sandbox_new(parent->app, id);

	child->project = g_strdup(parent->project);
	child->key_id = g_strdup(fork->key_id);
	child->agent = g_strdup(parent->agent);
	child->user = g_strdup(parent->user); /* of no session, but his all the same */
	child->memory_of = g_strdupv(parent->memory_of);
	child->template_name = g_strdup(parent->template_name);
	child->template_hash = g_strdup(parent->template_hash);
	child->rootfs = g_strdup(parent->rootfs);
	child->runtime_dir = g_strdup(parent->runtime_dir);
	child->layers = g_strdupv(parent->layers);
	child->workdir = g_strdup(parent->workdir);
	child->limits = parent->limits;
	child->metadata = json_incref(fork->metadata ? fork->metadata : parent->metadata);
	child->env = json_incref(parent->env);
	child->network = json_deep_copy(parent->network);
	child->boot_mode = g_strdup("fork");
	child->persistent = parent->persistent;
	child->idle_seconds = parent->idle_seconds;
	child->on_idle = parent->on_idle;
	child->rests_when_over = parent->rests_when_over;
	child->wakes_by_use = parent->wakes_by_use;
	child->rest_seconds = fork->rest_seconds;
	vial_sandbox_set_ttl(child, fork->ttl_seconds);
	if (fork->trial_seconds > 0)
		vial_sandbox_try_for(child, fork->trial_seconds);
	child->parent = g_strdup(parent->id);
	child->tree_id = g_strdup(fork->tree_id);
	child->generation = vial_generation_new();
	vial_promise_keep(fork->promise, child->id);
	return child;
}

static void push_child(Fork *fork, guint index, const VialTransitionOps *ops)
{
	Child *child = g_new0(Child, 1);

	child->fork = fork;
	child->index = index;
	child->started_ms = vial_time_monotonic_ms();
	child->tap_fd = -1;
	vial_transition_push(&child->base, ops, make_sandbox(fork), VIAL_QUEUE_LAST);
}

/* By a checkpoint */

static void restore_child(VialTransition *transition)
{
	Child *child = (Child *)transition;
	VialSandbox *sandbox = transition->sandbox;
	VialBootSpec spec = vial_sandbox_boot_spec(sandbox);

	spec.image = child->fork->image;
	spec.is_trusted = TRUE;
	vial_sandbox_choose_host(sandbox, &spec);
	vial_sandbox_store(sandbox);
	vial_boot(sandbox->app, &spec, on_child_booted, child);
}

static const VialTransitionOps restored_child_ops = {
	.participle = "forked",
	.from = VIAL_FROM(CREATING),
	.suspends_use = TRUE,
	.begin = restore_child,
	.settle = child_settle,
};

static void on_frozen(const GError *error, gpointer data)
{
	Fork *fork = data;

	if (error)
		return fork_end(fork, error);
	fork->pending = fork->n_children + 1;
	for (guint i = 0; i < fork->n_children; i++)
		push_child(fork, i, &restored_child_ops);
	fork_step(fork);
}

/* By the host process itself */

/* Nothing is left of a child that is not to be. */
static void give_up_child(Child *child, const GError *error)
{
	vial_sweep(child->base.sandbox->app, child->base.sandbox->host_id, NULL, NULL);
	on_child_booted(NULL, error, child);
}

static void on_thawed(const GError *error, gpointer data)
{
	Fork *fork = data;

	/* If the fork was not even tried, the children still wait; else each has its own end. */
	for (guint i = 0; error && i < fork->prepared->len; i++)
		give_up_child(fork->prepared->pdata[i], error);
	g_ptr_array_set_size(fork->prepared, 0);
	fork_step(fork);
}

/* The parent's HELLO and those of the children go out together. */
static void on_forked(json_t *result, const GError *error, gpointer data)
{
	Fork *fork = data;
	VialCallDone acted = fork->acted;
	gpointer acted_data = fork->acted_data;

	for (guint i = 0; i < fork->prepared->len; i++) {
		Child *child = fork->prepared->pdata[i];
		VialBootSpec spec = vial_sandbox_boot_spec(child->base.sandbox);

		spec.is_forked = TRUE;
		if (error)
			give_up_child(child, error);
		else
			vial_boot(child->base.sandbox->app, &spec, on_child_booted, child);
	}
	g_ptr_array_set_size(fork->prepared, 0);
	acted(result, NULL, acted_data); /* the parent is well, whatever became of them */
}

static void fork_host_process(VialInstance *instance, VialCallDone acted, gpointer acted_data, gpointer data)
{
	Fork *fork = data;
	g_autofree VialForkChild *children = g_new0(VialForkChild, fork->prepared->len);

	fork->acted = acted;
	fork->acted_data = acted_data;
	for (guint i = 0; i < fork->prepared->len; i++) {
		Child *child = fork->prepared->pdata[i];

		children[i] = (VialForkChild){ child->launch.id, child->dir, vial_fd_steal(&child->tap_fd) };
	}
	vial_instance_fork(instance, children, fork->prepared->len, on_forked, fork);
}

static void prepare_work(gpointer data)
{
	Fork *fork = data;
	VialEngine *engine = fork->parent->app->engine;

	for (guint i = 0; i < fork->prepared->len; i++) {
		Child *child = fork->prepared->pdata[i];

		if (!child->error)
			engine->ops->prepare(engine, &child->launch, &child->error);
	}
}

static void prepare_done(gpointer data)
{
	Fork *fork = data;

	/* From the end, since those that failed leave the list. */
	for (guint i = fork->prepared->len; i > 0; i--) {
		Child *child = fork->prepared->pdata[i - 1];

		if (!child->error)
			continue;
		g_ptr_array_remove_index(fork->prepared, i - 1);
		give_up_child(child, child->error);
	}
	if (fork->prepared->len > 0)
		vial_freeze_for(fork->parent, fork_host_process, on_thawed, fork);
	else
		fork_step(fork);
}

/* Folder, network slot and TAP of one child to be. */
static void prepare_child(VialTransition *transition)
{
	Child *child = (Child *)transition;
	VialSandbox *sandbox = transition->sandbox;
	VialApp *app = sandbox->app;

	child->dir = vial_host_dir(app, sandbox->host_id);
	child->launch = (VialLaunch){
		.id = sandbox->host_id,
		.dir = child->dir,
		.rootfs = sandbox->rootfs,
		.runtime_dir = sandbox->runtime_dir,
		.limits = sandbox->limits,
		.net = vial_slots_guest_net(),
	};
	g_ptr_array_add(child->fork->prepared, child);
	vial_sandbox_store(sandbox);
	if (!vial_layers_resolve(app, (const char *const *)sandbox->layers, &child->layers, &child->error))
		return;
	child->launch.layers = (const char *const *)child->layers;
	child->launch.is_layered = child->layers != NULL;
	if (!vial_slots_acquire(app->slots, sandbox->host_id, &child->launch.netns, &child->error))
		return;
	if (g_mkdir_with_parents(child->dir, 0700) < 0)
		vial_fail(&child->error, VIAL_ERROR_INTERNAL, "its folder could not be made: %s", g_strerror(errno));
	else if (app->engine->ops->uses_tap)
		child->tap_fd = vial_slots_open_tap(app->slots, sandbox->host_id, &child->error);
}

static const VialTransitionOps forked_child_ops = {
	.participle = "forked",
	.from = VIAL_FROM(CREATING),
	.suspends_use = TRUE,
	.begin = prepare_child,
	.settle = child_settle,
};

static void fork_directly(Fork *fork)
{
	fork->pending = fork->n_children + 1;
	for (guint i = 0; i < fork->n_children; i++)
		push_child(fork, i, &forked_child_ops);
	vial_worker_run_in(VIAL_LANE_BOOT, prepare_work, prepare_done, fork);
}

/* As long as the parent was given, or as whoever asks may give. */
static gint64 life_of_children(const VialSandbox *parent, const VialIdentity *principal)
{
	gint64 longest = vial_ceiling_ttl(parent->app, principal);

	return longest > 0 && (parent->ttl_seconds == 0 || parent->ttl_seconds > longest) ? longest : parent->ttl_seconds;
}

void vial_fork(VialSandbox *parent, guint n_children, json_t *metadata, gint64 ttl_seconds, gint64 trial_seconds, const VialIdentity *principal,
               VialPromise *promise, VialForkDone done, gpointer data)
{
	g_autofree char *folder = g_build_filename(parent->app->config->data_dir, "forks", NULL);
	Fork *fork = g_new0(Fork, 1);

	g_mkdir_with_parents(folder, 0700);
	fork->parent = vial_sandbox_ref(parent);
	fork->tree_id = vial_id_new();
	fork->image = g_build_filename(folder, fork->tree_id, NULL);
	fork->n_children = n_children;
	fork->metadata = metadata ? json_incref(metadata) : NULL;
	fork->key_id = g_strdup(principal->id);
	fork->ttl_seconds = ttl_seconds >= 0 ? ttl_seconds : life_of_children(parent, principal);
	fork->rest_seconds = vial_ceiling_ttl(parent->app, principal);
	fork->trial_seconds = trial_seconds;
	fork->promise = promise;
	fork->children = g_ptr_array_new_with_free_func(unref_child);
	fork->errors = g_ptr_array_new_with_free_func(free_error);
	g_ptr_array_set_size(fork->children, (int)n_children);
	g_ptr_array_set_size(fork->errors, (int)n_children);
	fork->prepared = g_ptr_array_new();
	fork->done = done;
	fork->data = data;
	if (parent->app->engine->ops->add_child)
		fork_directly(fork);
	else
		vial_freeze(parent, fork->image, on_frozen, fork);
}
