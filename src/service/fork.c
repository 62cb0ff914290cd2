/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One checkpoint, n restores. The checkpoint lives in forks/TREE only until the last child has loaded it; nothing of it is
 * shared afterwards, so parent and children cannot see each other's writes. The parent runs again before the first child
 * starts, whatever becomes of them.
 */
#include "service/fork.h"

#include <glib/gstdio.h>
#include <string.h>

#include "service/boot.h"
#include "service/freeze.h"
#include "service/pool.h"
#include "service/sandbox_private.h"
#include "util/fault.h"
#include "util/id.h"
#include "util/time.h"
#include "util/tree.h"

typedef struct {
	VialSandbox *parent;
	char *tree_id;
	char *image;
	guint n_children;
	guint pending;
	json_t *metadata;
	GPtrArray *children; /* VialSandbox or NULL, by index */
	GPtrArray *errors;   /* GError or NULL, by index */
	VialForkDone done;
	gpointer data;
} Fork;

typedef struct {
	Fork *fork;
	guint index;
	VialSandbox *child;
	gint64 started_ms;
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
	vial_sandbox_unref(fork->parent);
	json_decref(fork->metadata);
	g_free(fork->tree_id);
	g_free(fork->image);
	g_free(fork);
}

static void on_born(VialInstance *instance, const GError *error, gpointer data)
{
	g_autofree Birth *birth = data;
	VialSandbox *child = birth->child;
	Fork *fork = birth->fork;

	child->transition = NULL;
	if (error) {
		fork->errors->pdata[birth->index] = g_error_copy(error);
		vial_sandbox_set_state(child, VIAL_STATE_DELETED, NULL);
		vial_sandbox_forget(child);
	} else {
		fork->children->pdata[birth->index] = vial_sandbox_ref(child);
		child->boot_ms = vial_time_monotonic_ms() - birth->started_ms;
		vial_sandbox_set_running(child, instance);
		vial_sandbox_store(child);
		vial_sandbox_transition_done(child);
	}
	if (--fork->pending == 0)
		fork_end(fork, NULL);
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

static void bear(Fork *fork, guint index)
{
	Birth *birth = g_new0(Birth, 1);
	VialSandbox *child = make_child(fork);
	VialBootSpec spec = {
		.sandbox_id = child->id,
		.rootfs = child->rootfs,
		.runtime_dir = child->runtime_dir,
		.limits = child->limits,
		.image = fork->image,
		.is_trusted = TRUE,
		.generation = child->generation,
		.env = child->env,
		.network = child->network,
	};

	g_clear_pointer(&child->host_id, g_free);
	vial_pool_fill_spec(child->app, &spec, &child->host_id);
	*birth = (Birth){ fork, index, child, vial_time_monotonic_ms() };
	child->transition = birth;
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
