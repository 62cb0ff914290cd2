/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of a sandbox's machine:
 *
 *     boot the new one beside the old, under a host id of its own  \
 *     or: give the winner's guest this sandbox's policy and name   -> exchange in memory -> record -> stop the old one
 *
 * The record is one transaction: it names the new host id, and the winner's record and the undo point are gone with it. Before it the old machine
 * still runs, and a viald that is killed finds it there and sweeps the new one up as nobody's; after it, the other way round (adopt.c). If the record
 * cannot be written, or the new guest dies before it is, everything is put back.
 */
#include "service/in_place.h"

#include <string.h>

#include "service/boot.h"
#include "service/capacity.h"
#include "service/memory_of.h"
#include "service/pool.h"
#include "service/quota.h"
#include "service/sandbox_private.h"
#include "service/slots.h"
#include "service/snapshot_private.h"
#include "service/undo.h"
#include "util/fault.h"
#include "util/log.h"
#include "util/time.h"
#include "util/tree.h"

/* What is exchanged. */
typedef struct {
	char *host_id;
	char *template_hash;
	char *rootfs;
	char *runtime_dir;
	char **layers;
	char *workdir;
	char **memory_of;
	char *generation;
	VialInstance *instance;
} Machine;

typedef struct Exchange Exchange;

/* The winner's part, a transition of its own: whoever wants to use it meanwhile waits. */
typedef struct {
	VialTransition base;
	Exchange *exchange;
} Surrender;

struct Exchange {
	VialTransition base;
	const char *verb;       /* "rolled back": what who is cut off is told */
	VialSnapshot *snapshot; /* held; NULL: none, or an undo point that is not chosen yet */
	gboolean is_undo;
	VialSandbox *winner;  /* a reference; NULL: none */
	Surrender *surrender; /* under way */
	char *image;
	Machine other; /* the new one; once they are exchanged the old one */
	VialState old_state;
	char *old_reason;
	GError *error; /* why everything is put back */
	VialSandboxDone done;
	gpointer data;
};

static void machine_clear(Machine *machine)
{
	g_free(machine->host_id);
	g_free(machine->template_hash);
	g_free(machine->rootfs);
	g_free(machine->runtime_dir);
	g_strfreev(machine->layers);
	g_free(machine->workdir);
	g_strfreev(machine->memory_of);
	g_free(machine->generation);
	*machine = (Machine){ 0 };
}

static void exchange_settle(VialTransition *transition, const GError *error)
{
	g_autofree Exchange *exchange = (Exchange *)transition;

	if (exchange->snapshot)
		exchange->snapshot->users--;
	exchange->done(error ? NULL : transition->sandbox, error, exchange->data);
	if (exchange->is_undo) /* one that was kept meanwhile could not have its place yet */
		vial_undo_trim(transition->sandbox);
	machine_clear(&exchange->other);
	vial_sandbox_unref(exchange->winner);
	g_clear_error(&exchange->error);
	g_free(exchange->old_reason);
	g_free(exchange->image);
}

/* The winner's queue goes on first: nobody who is told of the end can find it held. */
static void exchange_end(Exchange *exchange, const GError *error)
{
	Surrender *surrender = g_steal_pointer(&exchange->surrender);

	if (surrender)
		vial_transition_end(&surrender->base, NULL);
	vial_transition_end(&exchange->base, error);
}

/* The exchange in memory, there and back */

static void swap_text(char **left, char **right)
{
	char *kept = *left;

	*left = *right;
	*right = kept;
}

static void swap_list(char ***left, char ***right)
{
	char **kept = *left;

	*left = *right;
	*right = kept;
}

static void swap(Exchange *exchange)
{
	VialSandbox *sandbox = exchange->base.sandbox;
	Machine *other = &exchange->other;
	VialInstance *instance = sandbox->instance;

	swap_list(&sandbox->layers, &other->layers);
	swap_list(&sandbox->memory_of, &other->memory_of);
	swap_text(&sandbox->workdir, &other->workdir);
	swap_text(&sandbox->host_id, &other->host_id);
	swap_text(&sandbox->template_hash, &other->template_hash);
	swap_text(&sandbox->rootfs, &other->rootfs);
	swap_text(&sandbox->runtime_dir, &other->runtime_dir);
	swap_text(&sandbox->generation, &other->generation);
	sandbox->instance = other->instance;
	other->instance = instance;
	if (other->instance) /* its end is nobody's loss now; should it come back, it will tell */
		vial_instance_set_events(other->instance, &(VialInstanceEvents){ 0 }, NULL);
	if (sandbox->instance)
		vial_sandbox_listen(sandbox);
}

static void restore_state(Exchange *exchange)
{
	VialSandbox *sandbox = exchange->base.sandbox;

	if (sandbox->state == exchange->old_state)
		return;
	if (exchange->old_state == VIAL_STATE_HIBERNATED && sandbox->state == VIAL_STATE_RUNNING)
		vial_sandbox_set_state(sandbox, VIAL_STATE_HIBERNATING, NULL);
	vial_sandbox_set_state(sandbox, exchange->old_state, exchange->old_reason);
}

/* The machine that is not the sandbox's any more, or not to be: what still runs in it is told why it ends. */
static void stop_other(Exchange *exchange)
{
	VialApp *app = exchange->base.sandbox->app;
	VialInstance *instance = g_steal_pointer(&exchange->other.instance);
	g_autoptr(GError) error = NULL;

	if (!instance) /* it slept, or had died: then loss.c sweeps up */
		return;
	error = g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "the sandbox was %s while this ran in it, so it has ended", exchange->verb);
	vial_channel_end_streams(vial_instance_channel(instance), error);
	vial_instance_stop(instance);
	vial_instance_free(instance);
	vial_sweep(app, exchange->other.host_id, NULL, NULL);
}

/* The winner, that was taken out of sight for its record's sake */

static void hide_winner(Exchange *exchange)
{
	VialSandbox *winner = exchange->winner;

	winner->instance = NULL;
	g_hash_table_remove(winner->app->sandboxes->by_id, winner->id);
}

static void bury_winner(Exchange *exchange)
{
	VialSandbox *winner = exchange->winner;
	g_autofree char *image = vial_hibernation_dir(winner->app, winner->id);

	vial_journal_add_event(winner->journal, "merged into %s", exchange->base.sandbox->id);
	vial_sandbox_set_state(winner, VIAL_STATE_DELETED, NULL);
	vial_slots_drop_parked(winner->app->slots, winner->id);
	vial_undo_drop_all(winner->app, winner->id);
	vial_tree_remove_later(image);
}

static void show_winner(Exchange *exchange)
{
	VialSandbox *winner = exchange->winner;

	g_hash_table_insert(winner->app->sandboxes->by_id, winner->id, vial_sandbox_ref(winner));
	vial_clocks_hasten(winner->app->sandboxes);
	vial_sandbox_store(winner);
}

/* Its own name again. A guest that does not take it is lost, as with every HELLO. */
static void on_winner_back(VialInstance *instance, const GError *error, gpointer data)
{
	Exchange *exchange = data;
	VialSandbox *winner = exchange->winner;

	if (error) {
		vial_log_error("sandbox", "the winner of a merge that failed did not come back", "sandbox_id", winner->id, "error", error->message);
		if (winner->instance)
			vial_instance_condemn(winner->instance, "not_resumed: it did not come back after a merge that failed");
		vial_sandbox_guest_ended(winner, error->message);
	} else {
		vial_sandbox_listen(winner);
		vial_sandbox_store(winner);
	}
	exchange_end(exchange, exchange->error);
}

static void on_winner_policy_back(const GError *error, gpointer data)
{
	Exchange *exchange = data;
	VialBootSpec spec;

	if (!exchange->winner->instance || error)
		return on_winner_back(NULL, error ? error : exchange->error, exchange);
	g_free(exchange->winner->generation);
	exchange->winner->generation = vial_generation_new();
	spec = vial_sandbox_boot_spec(exchange->winner);
	vial_boot_hello(exchange->winner->app, exchange->winner->instance, &spec, on_winner_back, exchange);
}

static void give_winner_back(Exchange *exchange)
{
	VialSandbox *winner = exchange->winner;

	vial_slots_set_policy(winner->app->slots, winner->host_id, winner->network, on_winner_policy_back, exchange);
}

/* The record */

static void put_back(Exchange *exchange, const GError *error)
{
	VialSandbox *sandbox = exchange->base.sandbox, *winner = exchange->winner;
	gboolean is_of_winner = winner && strcmp(sandbox->host_id, winner->host_id) == 0 && winner->state == VIAL_STATE_RUNNING;

	vial_log_error("sandbox", "its machine could not be exchanged and is the old one again", "sandbox_id", sandbox->id, "error", error->message);
	exchange->error = g_error_copy(error);
	swap(exchange);
	restore_state(exchange);
	vial_sandbox_store(sandbox);
	if (exchange->is_undo)
		vial_snapshot_store(sandbox->app, exchange->snapshot, NULL, NULL);
	if (is_of_winner && exchange->other.instance) {
		winner->instance = g_steal_pointer(&exchange->other.instance);
		show_winner(exchange);
		return give_winner_back(exchange);
	}
	if (is_of_winner) /* it died as the sandbox's own, and loss.c sweeps up; but it was the winner's */
		vial_sandbox_set_state(winner, VIAL_STATE_FAILED, exchange->error->message);
	if (winner)
		show_winner(exchange);
	stop_other(exchange);
	exchange_end(exchange, exchange->error);
}

static void on_stored(const GError *error, gpointer data)
{
	Exchange *exchange = data;
	VialSandbox *sandbox = exchange->base.sandbox;
	g_autofree char *image = vial_hibernation_dir(sandbox->app, sandbox->id);
	g_autoptr(GError) died = NULL;

	vial_fault("in_place.stored");
	if (!error && !sandbox->instance)
		error = died = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the new machine ended as soon as it was there");
	if (error)
		return put_back(exchange, error);
	vial_log_info("sandbox", "got another machine", "sandbox_id", sandbox->id, "host_id", sandbox->host_id, "before", exchange->other.host_id);
	vial_journal_add_event(sandbox->journal, "the sandbox was %s", exchange->verb);
	stop_other(exchange);
	vial_slots_drop_parked(sandbox->app->slots, sandbox->id);
	vial_tree_remove_later(image);
	if (exchange->is_undo)
		vial_snapshot_forget(sandbox->app, g_steal_pointer(&exchange->snapshot));
	if (exchange->winner)
		bury_winner(exchange);
	exchange_end(exchange, NULL);
}

/* From here on the new machine is the sandbox's, unless it cannot be recorded. */
static void commit(Exchange *exchange, VialInstance *instance)
{
	VialSandbox *sandbox = exchange->base.sandbox;
	g_autoptr(GError) error = NULL;

	exchange->other.instance = instance;
	swap(exchange);
	sandbox->last_active_ms = vial_time_monotonic_ms();
	if (sandbox->state == VIAL_STATE_HIBERNATED)
		vial_sandbox_set_state(sandbox, VIAL_STATE_WAKING, NULL);
	if (sandbox->state != VIAL_STATE_RUNNING)
		vial_sandbox_set_state(sandbox, VIAL_STATE_RUNNING, NULL);
	if (exchange->winner)
		hide_winner(exchange);
	if (vial_fault("in_place.record")) {
		error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_NO_SPACE, "injected failure of the record");
		return on_stored(error, exchange);
	}
	vial_sandbox_store_exchange(sandbox, exchange->winner ? exchange->winner->id : NULL, exchange->is_undo ? exchange->snapshot->id : NULL,
	                            on_stored, exchange);
}

/* A new machine, from an image */

static void on_booted(VialInstance *instance, const GError *error, gpointer data)
{
	Exchange *exchange = data;
	VialSandbox *sandbox = exchange->base.sandbox;
	g_autoptr(GError) told = NULL;

	vial_fault("in_place.booted");
	if (!error)
		return commit(exchange, instance);
	restore_state(exchange);
	vial_log_warning("sandbox", "its machine could not be exchanged", "sandbox_id", sandbox->id, "error", error->message);
	told = g_error_new(VIAL_ERROR, error->code, "the sandbox could not be %s and is what it was: %s", exchange->verb, error->message);
	exchange_end(exchange, told);
}

static void boot(Exchange *exchange)
{
	VialSandbox *sandbox = exchange->base.sandbox;
	VialBootSpec spec = vial_sandbox_boot_spec(sandbox);
	g_autoptr(GError) error = NULL;

	/* One that is awake has its place already. */
	if ((sandbox->state == VIAL_STATE_HIBERNATED || sandbox->state == VIAL_STATE_FAILED) &&
	    !(vial_capacity_admit(sandbox, 1, &error) && vial_quota_admit_wake(sandbox, &error)))
		return exchange_end(exchange, error);
	exchange->other.generation = vial_generation_new();
	spec.generation = exchange->other.generation;
	spec.rootfs = exchange->other.rootfs;
	spec.runtime_dir = exchange->other.runtime_dir;
	spec.layers = (const char *const *)exchange->other.layers;
	spec.workdir = exchange->other.workdir;
	spec.image = exchange->image;
	vial_pool_fill_spec(sandbox->app, &spec, &exchange->other.host_id);
	/* Not recorded: its image is what it is until the new machine is there. */
	if (sandbox->state == VIAL_STATE_HIBERNATED)
		vial_sandbox_set_state(sandbox, VIAL_STATE_WAKING, NULL);
	vial_boot(sandbox->app, &spec, on_booted, exchange);
}

static gboolean same_template(const VialSandbox *sandbox, const char *name, const char *what, GError **error)
{
	return strcmp(sandbox->template_name, name) == 0 ||
	       vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox is of the template %s and %s of %s; make a new sandbox of that instead",
	                 sandbox->template_name, what, name);
}

/* What is in it was one agent's and one of its users': it does not become another's. */
static gboolean same_owner(const VialSandbox *sandbox, const char *agent, const char *user, const char *what, GError **error)
{
	const char *own = sandbox->user ? sandbox->user : "";

	/* One without an agent may have been made from a snapshot of an agent's. */
	if (sandbox->agent && g_strcmp0(sandbox->agent, agent) != 0)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox and %s belong to different agents, so the one cannot become the other",
		                 what);
	return strcmp(own, user ? user : "") == 0 ||
	       vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox and %s belong to different users, so the one cannot become the other", what);
}

static gboolean fits(const VialSandbox *sandbox, const VialSnapshot *snapshot, GError **error)
{
	VialLimits saved = vial_snapshot_limits(snapshot);

	if (!same_template(sandbox, snapshot->template_name, "the snapshot", error) ||
	    !same_owner(sandbox, json_string_value(json_object_get(snapshot->facts, "agent")),
	                json_string_value(json_object_get(snapshot->facts, "user")), "the snapshot", error))
		return FALSE;
	return (saved.disk_mb == sandbox->limits.disk_mb && vial_engine_fits(sandbox->app->engine, &saved, &sandbox->limits)) ||
	       vial_fail(error, VIAL_ERROR_CONFLICT,
	                 "the snapshot is of a sandbox with %" G_GINT64_FORMAT " MB of memory, %g processors and %" G_GINT64_FORMAT
	                 " MB of disk, which does not fit into this one; make a new sandbox from it instead",
	                 saved.memory_mb, saved.cpu, saved.disk_mb);
}

static char *fact(const VialSnapshot *snapshot, const char *name)
{
	return g_strdup(json_string_value(json_object_get(snapshot->facts, name)));
}

static gboolean choose(Exchange *exchange, GError **error)
{
	VialSandbox *sandbox = exchange->base.sandbox;

	exchange->old_state = sandbox->state;
	exchange->old_reason = g_strdup(sandbox->reason);
	if (sandbox->is_damaged)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "%s", sandbox->reason);
	if (!exchange->is_undo)
		return TRUE;
	exchange->snapshot = vial_undo_last(sandbox);
	if (!exchange->snapshot)
		return vial_fail(error, VIAL_ERROR_CONFLICT,
		                 "there is nothing to undo: no run of this sandbox has kept the state before it "
		                 "(\"undo\": true), or all of them have been undone");
	exchange->snapshot->users++;
	return TRUE;
}

static void rollback_begin(VialTransition *transition)
{
	Exchange *exchange = (Exchange *)transition;
	VialSandbox *sandbox = transition->sandbox;
	g_autoptr(GError) error = NULL;

	if (!choose(exchange, &error) || !fits(sandbox, exchange->snapshot, &error))
		return exchange_end(exchange, error);
	exchange->image = vial_snapshot_dir(sandbox->app, exchange->snapshot->id);
	exchange->other.template_hash = fact(exchange->snapshot, "template_hash");
	exchange->other.rootfs = fact(exchange->snapshot, "rootfs");
	exchange->other.runtime_dir = fact(exchange->snapshot, "runtime_dir");
	exchange->other.layers = vial_snapshot_layers(exchange->snapshot);
	exchange->other.workdir = fact(exchange->snapshot, "workdir");
	exchange->other.memory_of = vial_snapshot_memory_of(exchange->snapshot);
	boot(exchange);
}

static const VialTransitionOps rollback_ops = {
	.participle = "rolled back",
	.from = VIAL_FROM(RUNNING) | VIAL_FROM(PAUSED) | VIAL_FROM(HIBERNATED) | VIAL_FROM(FAILED),
	.suspends_use = TRUE,
	.begin = rollback_begin,
	.settle = exchange_settle,
};

/* The winner's machine */

static void on_introduced(VialInstance *instance, const GError *error, gpointer data)
{
	Exchange *exchange = data;

	vial_fault("in_place.introduced");
	if (!error)
		return commit(exchange, instance);
	exchange->error = g_error_copy(error);
	on_winner_back(NULL, error, exchange);
}

static void on_policy(const GError *error, gpointer data)
{
	Exchange *exchange = data;
	VialSandbox *sandbox = exchange->base.sandbox, *winner = exchange->winner;
	VialBootSpec spec;

	if (error) {
		exchange->error = g_error_copy(error);
		return give_winner_back(exchange);
	}
	if (!winner->instance) { /* it died meanwhile; loss.c waits for its turn */
		g_autoptr(GError) died = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the winner ended while it was being merged");

		return exchange_end(exchange, died);
	}
	spec = vial_sandbox_boot_spec(sandbox);
	spec.host_id = exchange->other.host_id;
	spec.generation = exchange->other.generation;
	vial_boot_hello(sandbox->app, winner->instance, &spec, on_introduced, exchange);
}

static void surrender_begin(VialTransition *transition)
{
	Exchange *exchange = ((Surrender *)transition)->exchange;
	VialSandbox *winner = transition->sandbox;
	Machine *machine = &exchange->other;

	exchange->surrender = (Surrender *)transition;
	machine->template_hash = g_strdup(winner->template_hash);
	machine->rootfs = g_strdup(winner->rootfs);
	machine->runtime_dir = g_strdup(winner->runtime_dir);
	machine->layers = g_strdupv(winner->layers);
	machine->workdir = g_strdup(winner->workdir);
	machine->memory_of = g_strdupv(winner->memory_of);
	if (winner->state == VIAL_STATE_HIBERNATED) {
		exchange->image = vial_hibernation_dir(winner->app, winner->id);
		return boot(exchange);
	}
	machine->host_id = g_strdup(winner->host_id);
	machine->generation = vial_generation_new();
	vial_slots_set_policy(winner->app->slots, winner->host_id, exchange->base.sandbox->network, on_policy, exchange);
}

/* With an error only when it could not begin. */
static void surrender_settle(VialTransition *transition, const GError *error)
{
	g_autofree Surrender *surrender = (Surrender *)transition;

	if (error)
		exchange_end(surrender->exchange, error);
}

static const VialTransitionOps surrender_ops = {
	.participle = "merged",
	.from = VIAL_FROM(RUNNING) | VIAL_FROM(HIBERNATED),
	.suspends_use = TRUE,
	.begin = surrender_begin,
	.settle = surrender_settle,
};

static gboolean may_merge(const VialSandbox *sandbox, const VialSandbox *winner, GError **error)
{
	const VialLimits *own = &sandbox->limits, *other = &winner->limits;

	if (!same_template(sandbox, winner->template_name, "the winner", error))
		return FALSE;
	if (!same_owner(sandbox, winner->agent, winner->user, "the winner", error))
		return FALSE;
	if (!sandbox->agent && winner->agent)
		return vial_fail(error, VIAL_ERROR_CONFLICT,
		                 "the winner belongs to the agent %s and the sandbox to none, so the one cannot become the other", winner->agent);
	if (winner->session)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the winner is the sandbox of the session %s and cannot be used up; merge a fork of it",
		                 winner->session);
	if (own->cpu != other->cpu || own->memory_mb != other->memory_mb || own->disk_mb != other->disk_mb)
		return vial_fail(error, VIAL_ERROR_CONFLICT,
		                 "the winner has %" G_GINT64_FORMAT " MB of memory, %g processors and %" G_GINT64_FORMAT
		                 " MB of disk, and a sandbox can only be merged with one of its own size",
		                 other->memory_mb, other->cpu, other->disk_mb);
	/* Refused, not waited for: two that wait for each other would wait for ever. */
	if (winner->active > 0)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the winner is in use (%u requests) and cannot be merged now", winner->active);
	if (vial_sandbox_is_busy(winner) || winner->pump)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the winner is just being changed otherwise; try again in a moment");
	return TRUE;
}

static void merge_begin(VialTransition *transition)
{
	Exchange *exchange = (Exchange *)transition;
	Surrender *surrender;
	g_autoptr(GError) error = NULL;

	if (!choose(exchange, &error) || !may_merge(transition->sandbox, exchange->winner, &error))
		return exchange_end(exchange, error);
	surrender = g_new0(Surrender, 1);
	surrender->exchange = exchange;
	vial_transition_push(&surrender->base, &surrender_ops, exchange->winner, VIAL_QUEUE_LAST);
}

static const VialTransitionOps merge_ops = {
	.participle = "merged",
	.from = VIAL_FROM(RUNNING) | VIAL_FROM(PAUSED) | VIAL_FROM(HIBERNATED) | VIAL_FROM(FAILED),
	.suspends_use = TRUE,
	.begin = merge_begin,
	.settle = exchange_settle,
};

/* Beginning */

static Exchange *exchange_new(const char *verb, VialSandboxDone done, gpointer data)
{
	Exchange *exchange = g_new0(Exchange, 1);

	exchange->verb = verb;
	exchange->done = done;
	exchange->data = data;
	return exchange;
}

void vial_sandbox_rollback(VialSandbox *sandbox, VialSnapshot *snapshot, VialSandboxDone done, gpointer data)
{
	Exchange *exchange = exchange_new("rolled back", done, data);

	exchange->snapshot = snapshot;
	snapshot->users++;
	vial_transition_push(&exchange->base, &rollback_ops, sandbox, VIAL_QUEUE_LAST);
}

void vial_sandbox_undo(VialSandbox *sandbox, VialSandboxDone done, gpointer data)
{
	Exchange *exchange = exchange_new("brought back to where it was", done, data);

	exchange->is_undo = TRUE;
	vial_transition_push(&exchange->base, &rollback_ops, sandbox, VIAL_QUEUE_LAST);
}

void vial_sandbox_merge(VialSandbox *sandbox, VialSandbox *winner, VialSandboxDone done, gpointer data)
{
	Exchange *exchange = exchange_new("merged with another", done, data);

	exchange->winner = vial_sandbox_ref(winner);
	vial_transition_push(&exchange->base, &merge_ops, sandbox, VIAL_QUEUE_LAST);
}
