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
	GPtrArray *children; /* VialSandbox or NULL, by index */
	GPtrArray *errors;   /* GError or NULL, by index */
	GPtrArray *births;   /* Birth, of those made ready ahead; NULL where checkpoints are used */
	VialCallDone acted;  /* freeze.c's */
	gpointer acted_data;
	VialForkDone done;
	gpointer data;
} Fork;

typedef struct {
	Fork *fork;
	guint index;
	VialSandbox *child;
	gint64 started_ms;
	/* for a host process that forks itself */
	VialLaunch launch;
	char *dir;
	int tap_fd;
	GError *error; /* it could not be made ready */
} Birth;

static void free_error(gpointer error)
{
	if (error)
		g_error_free(error);
}

static void free_child(gpointer child)
{
	vial_sandbox_unref(child);
}

static void fork_end(Fork *fork, const GError *error)
{
	fork->done(fork->tree_id, fork->children, fork->errors, error, fork->data);
	vial_tree_remove_later(fork->image);
	g_ptr_array_unref(fork->children);
	g_ptr_array_unref(fork->errors);
	g_clear_pointer(&fork->births, g_ptr_array_unref);
	vial_sandbox_unref(fork->parent);
	json_decref(fork->metadata);
	g_free(fork->tree_id);
	g_free(fork->image);
	g_free(fork);
}

static void birth_free(Birth *birth)
{
	vial_fd_clear(&birth->tap_fd);
	g_clear_error(&birth->error);
	g_free(birth->dir);
	g_free(birth);
}

static void birth_end(Birth *birth)
{
	Fork *fork = birth->fork;

	birth->child->transition = NULL;
	birth_free(birth);
	if (--fork->pending == 0)
		fork_end(fork, NULL);
}

/* As with every create: told of only when it would outlive our own crash. */
static void on_child_stored(const GError *error, gpointer data)
{
	Birth *birth = data;
	g_autoptr(VialSandbox) child = vial_sandbox_ref(birth->child);

	birth_end(birth);
	vial_sandbox_transition_done(child);
}

static void on_born(VialInstance *instance, const GError *error, gpointer data)
{
	Birth *birth = data;
	VialSandbox *child = birth->child;
	Fork *fork = birth->fork;

	if (error) {
		fork->errors->pdata[birth->index] = g_error_copy(error);
		vial_sandbox_set_state(child, VIAL_STATE_DELETED, NULL);
		vial_sandbox_ref(child);
		birth_end(birth);
		vial_sandbox_forget(child);
		vial_sandbox_unref(child);
		return;
	}
	fork->children->pdata[birth->index] = vial_sandbox_ref(child);
	child->boot_ms = vial_time_monotonic_ms() - birth->started_ms;
	vial_sandbox_set_running(child, instance);
	vial_sandbox_store_then(child, on_child_stored, birth);
}

static VialSandbox *make_child(Fork *fork)
{
	VialSandbox *parent = fork->parent;
	g_autofree char *id = vial_id_new();
	VialSandbox *child = vial_sandbox_new(parent->app, id);

	child->project = g_strdup(parent->project);
	child->key_id = g_strdup(parent->key_id);
	child->template_name = g_strdup(parent->template_name);
	child->template_hash = g_strdup(parent->template_hash);
	child->rootfs = g_strdup(parent->rootfs);
	child->runtime_dir = g_strdup(parent->runtime_dir);
	child->limits = parent->limits;
	child->metadata = json_incref(fork->metadata ? fork->metadata : parent->metadata);
	child->env = json_incref(parent->env);
	child->network = json_deep_copy(parent->network);
	child->boot_mode = g_strdup("fork");
	child->persistent = parent->persistent;
	child->idle_seconds = parent->idle_seconds;
	child->on_idle = parent->on_idle;
	vial_sandbox_set_ttl(child, parent->ttl_seconds);
	child->parent = g_strdup(parent->id);
	child->tree_id = g_strdup(fork->tree_id);
	child->generation = vial_generation_new();
	return child;
}

static Birth *birth_new(Fork *fork, guint index)
{
	Birth *birth = g_new0(Birth, 1);

	*birth = (Birth){ .fork = fork, .index = index, .child = make_child(fork), .started_ms = vial_time_monotonic_ms(), .tap_fd = -1 };
	birth->child->transition = birth;
	return birth;
}

static VialBootSpec boot_spec(const VialSandbox *child)
{
	return (VialBootSpec){
		.sandbox_id = child->id,
		.host_id = child->host_id,
		.rootfs = child->rootfs,
		.runtime_dir = child->runtime_dir,
		.limits = child->limits,
		.generation = child->generation,
		.env = child->env,
		.network = child->network,
	};
}

/* By a checkpoint */

static void bear(Fork *fork, guint index)
{
	Birth *birth = birth_new(fork, index);
	VialSandbox *child = birth->child;
	VialBootSpec spec = boot_spec(child);

	spec.image = fork->image;
	spec.is_trusted = TRUE;
	g_clear_pointer(&child->host_id, g_free);
	vial_pool_fill_spec(child->app, &spec, &child->host_id);
	vial_sandbox_store(child);
	vial_boot(child->app, &spec, on_born, birth);
}

static void on_frozen(const GError *error, gpointer data)
{
	Fork *fork = data;

	if (error)
		return fork_end(fork, error);
	fork->pending = fork->n_children + 1;
	for (guint i = 0; i < fork->n_children; i++)
		bear(fork, i);
	if (--fork->pending == 0)
		fork_end(fork, NULL);
}

/* By the host process itself */

/* A child that is not to be: nothing of it is left. */
static void give_up(Birth *birth, const GError *error)
{
	vial_sweep(birth->child->app, birth->child->host_id, NULL, NULL);
	on_born(NULL, error, birth);
}

static void on_thawed(const GError *error, gpointer data)
{
	Fork *fork = data;

	/* If the fork was not even tried, the children still wait; else each has its own end. */
	for (guint i = 0; error && i < fork->births->len; i++)
		give_up(fork->births->pdata[i], error);
	g_ptr_array_set_size(fork->births, 0);
	if (--fork->pending == 0)
		fork_end(fork, NULL);
}

/* The parent's HELLO and those of the children go out together. */
static void on_forked(json_t *result, const GError *error, gpointer data)
{
	Fork *fork = data;
	VialCallDone acted = fork->acted;
	gpointer acted_data = fork->acted_data;

	for (guint i = 0; i < fork->births->len; i++) {
		Birth *birth = fork->births->pdata[i];
		VialBootSpec spec = boot_spec(birth->child);

		spec.is_forked = TRUE;
		if (error)
			give_up(birth, error);
		else
			vial_boot(birth->child->app, &spec, on_born, birth);
	}
	g_ptr_array_set_size(fork->births, 0);
	acted(result, NULL, acted_data); /* the parent is well, whatever became of them */
}

static void act(VialInstance *instance, VialCallDone acted, gpointer acted_data, gpointer data)
{
	Fork *fork = data;
	g_autofree VialForkChild *children = g_new0(VialForkChild, fork->births->len);

	fork->acted = acted;
	fork->acted_data = acted_data;
	for (guint i = 0; i < fork->births->len; i++) {
		Birth *birth = fork->births->pdata[i];

		children[i] = (VialForkChild){ birth->launch.id, birth->dir, vial_fd_steal(&birth->tap_fd) };
	}
	vial_instance_fork(instance, children, fork->births->len, on_forked, fork);
}

static void prepare_work(gpointer data)
{
	Fork *fork = data;
	VialEngine *engine = fork->parent->app->engine;

	for (guint i = 0; i < fork->births->len; i++) {
		Birth *birth = fork->births->pdata[i];

		if (!birth->error)
			engine->ops->prepare(engine, &birth->launch, &birth->error);
	}
}

static void prepare_done(gpointer data)
{
	Fork *fork = data;

	/* From the end, since those who cannot be born leave the list. */
	for (guint i = fork->births->len; i > 0; i--) {
		Birth *birth = fork->births->pdata[i - 1];

		if (!birth->error)
			continue;
		g_ptr_array_remove_index(fork->births, i - 1);
		give_up(birth, birth->error);
	}
	if (fork->births->len > 0)
		vial_freeze_for(fork->parent, act, on_thawed, fork);
	else if (--fork->pending == 0)
		fork_end(fork, NULL);
}

/* Folder, network slot and TAP of one child to be. */
static void conceive(Fork *fork, guint index)
{
	Birth *birth = birth_new(fork, index);
	VialSandbox *child = birth->child;
	VialApp *app = child->app;

	birth->dir = vial_host_dir(app, child->host_id);
	birth->launch = (VialLaunch){
		.id = child->host_id,
		.dir = birth->dir,
		.rootfs = child->rootfs,
		.runtime_dir = child->runtime_dir,
		.limits = child->limits,
		.net = vial_slots_guest_net(),
	};
	g_ptr_array_add(fork->births, birth);
	vial_sandbox_store(child);
	if (!vial_slots_acquire(app->slots, child->host_id, &birth->launch.netns, &birth->error))
		return;
	if (g_mkdir_with_parents(birth->dir, 0700) < 0)
		vial_fail(&birth->error, VIAL_ERROR_INTERNAL, "its folder could not be made: %s", g_strerror(errno));
	else if (app->engine->ops->uses_tap)
		birth->tap_fd = vial_slots_open_tap(app->slots, child->host_id, &birth->error);
}

static void fork_directly(Fork *fork)
{
	fork->births = g_ptr_array_new();
	fork->pending = fork->n_children + 1;
	for (guint i = 0; i < fork->n_children; i++)
		conceive(fork, i);
	vial_worker_run(prepare_work, prepare_done, fork);
}

void vial_fork(VialSandbox *parent, guint n_children, json_t *metadata, VialForkDone done, gpointer data)
{
	g_autofree char *folder = g_build_filename(parent->app->config->data_dir, "forks", NULL);
	Fork *fork = g_new0(Fork, 1);

	g_mkdir_with_parents(folder, 0700);
	fork->parent = vial_sandbox_ref(parent);
	fork->tree_id = vial_id_new();
	fork->image = g_build_filename(folder, fork->tree_id, NULL);
	fork->n_children = n_children;
	fork->metadata = metadata ? json_incref(metadata) : NULL;
	fork->children = g_ptr_array_new_with_free_func(free_child);
	fork->errors = g_ptr_array_new_with_free_func(free_error);
	g_ptr_array_set_size(fork->children, (int)n_children);
	g_ptr_array_set_size(fork->errors, (int)n_children);
	fork->done = done;
	fork->data = data;
	if (parent->app->engine->ops->add_child)
		fork_directly(fork);
	else
		vial_freeze(parent, fork->image, FALSE, on_frozen, fork);
}

/* Promoting */

typedef struct {
	VialPromoteDone done;
	gpointer data;
	guint pending;
	json_t *answer;
} Promotion;

static void promotion_step(Promotion *promotion)
{
	if (--promotion->pending > 0)
		return;
	promotion->done(promotion->answer, promotion->data);
	json_decref(promotion->answer);
	g_free(promotion);
}

static void on_sibling_deleted(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Promotion *promotion = data;

	json_array_append_new(json_object_get(promotion->answer, "deleted"), json_string(sandbox->id));
	promotion_step(promotion);
}

void vial_promote(VialSandbox *winner, const char *tree_id, gboolean cleanup_siblings, VialPromoteDone done, gpointer data)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(winner->app->sandboxes);
	Promotion *promotion = g_new0(Promotion, 1);
	const char *tree = tree_id ? tree_id : winner->tree_id;

	promotion->done = done;
	promotion->data = data;
	promotion->pending = 1;
	promotion->answer = json_pack("{s:s, s:s*, s:[], s:{}}", "winner", winner->id, "tree_id", tree, "deleted", "failures");
	for (guint i = 0; cleanup_siblings && tree && i < all->len; i++) {
		VialSandbox *sibling = all->pdata[i];

		if (sibling == winner || sibling->state == VIAL_STATE_DELETED || g_strcmp0(sibling->tree_id, tree) != 0 ||
		    strcmp(sibling->project, winner->project) != 0)
			continue;
		promotion->pending++;
		vial_sandbox_delete(sibling, on_sibling_deleted, promotion);
	}
	promotion_step(promotion);
}
