/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a sandbox: restore the template's checkpoint, or boot cold where there is none. */
#include <string.h>

#include "service/boot.h"
#include "service/capacity.h"
#include "service/custom_templates.h"
#include "service/edition.h"
#include "service/memory_of.h"
#include "service/pool.h"
#include "service/quota.h"
#include "service/sandbox_private.h"
#include "service/sessions.h"
#include "service/slots.h"
#include "service/snapshot.h"
#include "util/id.h"
#include "util/log.h"
#include "util/time.h"

static gboolean apply_lifecycle(VialSandbox *sandbox, const VialIdentity *identity, const VialSandboxCreate *create, GError **error)
{
	const VialConfig *config = sandbox->app->config;
	gint64 ttl = create->ttl_seconds;

	sandbox->persistent = create->persistent;
	sandbox->rests_when_over = create->rests_when_over;
	sandbox->wakes_by_use = create->wakes_by_use;
	sandbox->rest_seconds = vial_ceiling_ttl(sandbox->app, identity);
	sandbox->on_idle = create->on_idle >= 0 ? (VialOnIdle)create->on_idle : create->persistent ? VIAL_ON_IDLE_HIBERNATE : VIAL_ON_IDLE_DELETE;
	sandbox->idle_seconds = create->idle_seconds >= 0 ? create->idle_seconds : config->default_idle_seconds;
	if (!vial_sandbox_choose_ttl(sandbox->app, identity, create->persistent, &ttl, error))
		return FALSE;
	vial_sandbox_set_ttl(sandbox, ttl);
	return TRUE;
}

typedef struct {
	VialTransition base;
	VialSnapshot *snapshot; /* held, NULL: it starts from a template */
	gboolean has_start;     /* what its template says is to run in it runs in the checkpoint only */
	VialSandboxDone done;
	gpointer data;
	gint64 started_ms;
} Creation;

static void creation_settle(VialTransition *transition, const GError *error)
{
	g_autofree Creation *creation = (Creation *)transition;

	if (creation->snapshot)
		creation->snapshot->users--;
	creation->done(error ? NULL : transition->sandbox, error, creation->data);
}

/* Whoever was told of a sandbox finds it again, even if we are killed right after the answer; a record that cannot be written only loses that. */
static void on_stored(const GError *error, gpointer data)
{
	vial_transition_end(data, NULL);
}

static void on_booted(VialInstance *instance, const GError *error, gpointer data)
{
	Creation *creation = data;
	VialSandbox *sandbox = creation->base.sandbox;

	if (error) {
		g_autofree char *line = vial_template_problem_line(error->message);

		vial_log_warning("sandbox", "could not be created", "sandbox_id", sandbox->id, "error", line);
		vial_sandbox_set_state(sandbox, VIAL_STATE_DELETED, NULL);
		vial_sandbox_forget(sandbox);
		return vial_transition_end(&creation->base, error);
	}
	sandbox->boot_ms = vial_time_monotonic_ms() - creation->started_ms;
	vial_sandbox_set_running(sandbox, instance);
	vial_sandbox_store_then(sandbox, on_stored, creation);
}

static void set_boot_mode(VialSandbox *sandbox, const char *mode)
{
	g_free(sandbox->boot_mode);
	sandbox->boot_mode = g_strdup(mode);
}

static void boot_fresh(Creation *creation, const char *image)
{
	VialSandbox *sandbox = creation->base.sandbox;
	VialBootSpec spec = vial_sandbox_boot_spec(sandbox);

	set_boot_mode(sandbox, image ? "restore" : "cold");
	vial_sandbox_choose_host(sandbox, &spec);
	spec.image = image;
	spec.is_layered = sandbox->build != NULL && !sandbox->from_snapshot;
	vial_sandbox_store(sandbox);
	vial_boot(sandbox->app, &spec, on_booted, creation);
}

/*
 * Without a checkpoint it is booted, and lacks at most what warm code has imported. A start command is another matter: whoever makes the sandbox
 * relies on what answers there, and would have to wait for it as the bake did; so there is a sandbox in which it runs, or none.
 */
static void boot_template(Creation *creation, const VialTemplate *edition)
{
	const VialSandbox *sandbox = creation->base.sandbox;
	const char *checkpoint = edition ? edition->checkpoint : NULL, *problem = vial_edition_problem(sandbox->app, sandbox->template_hash);
	g_autoptr(GError) error = NULL;

	if (checkpoint || !creation->has_start)
		return boot_fresh(creation, checkpoint);
	vial_fail(&error, VIAL_ERROR_UNAVAILABLE, "a sandbox of \"%s\" in this size needs a checkpoint with its start command running, and %s%s",
	          sandbox->template_name, problem ? "it could not be baked: " : "there is none now", problem ? problem : "");
	on_booted(NULL, error, creation);
}

/* A pooled guest whose HELLO failed is of no use to anybody: boot a fresh one instead. */
static void on_claimed(VialInstance *instance, const GError *error, gpointer data)
{
	Creation *creation = data;
	VialSandbox *sandbox = creation->base.sandbox;
	VialTemplate *edition;

	if (!error)
		return on_booted(instance, NULL, creation);
	vial_log_warning("pool", "a pooled sandbox did not take its owner", "sandbox_id", sandbox->id, "error", error->message);
	vial_sandbox_drop_instance(sandbox);
	vial_sweep(sandbox->app, sandbox->host_id, NULL, NULL);
	edition = vial_edition_find(sandbox->app, sandbox->template_hash);
	/* Replaced meanwhile: its checkpoint does not fit this sandbox's image. */
	boot_template(creation, edition);
}

static void on_network(const GError *error, gpointer data)
{
	Creation *creation = data;
	VialSandbox *sandbox = creation->base.sandbox;
	VialBootSpec spec = vial_sandbox_boot_spec(sandbox);

	if (error)
		return on_claimed(NULL, error, creation);
	vial_boot_hello(sandbox->app, sandbox->instance, &spec, on_claimed, creation);
}

static void on_limited(const GError *error, gpointer data)
{
	Creation *creation = data;
	VialSandbox *sandbox = creation->base.sandbox;

	if (error)
		return on_claimed(NULL, error, creation);
	vial_slots_set_policy(sandbox->app->slots, sandbox->host_id, sandbox->network, on_network, creation);
}

/* The pool first, then the checkpoint; a template that is not baked, or not in this size, is booted, if it may be. */
static void on_edition(VialTemplate *edition, gpointer data)
{
	Creation *creation = data;
	VialSandbox *sandbox = creation->base.sandbox;
	g_autofree char *host_id = NULL;

	if (edition)
		sandbox->instance = vial_pool_claim(sandbox->app->pool, edition, &sandbox->limits, &host_id);
	if (!sandbox->instance)
		return boot_template(creation, edition);
	g_free(sandbox->host_id);
	sandbox->host_id = g_steal_pointer(&host_id);
	set_boot_mode(sandbox, "pool");
	vial_sandbox_store(sandbox);
	vial_engine_limit(sandbox->app->engine, sandbox->host_id, &sandbox->limits, on_limited, creation);
}

static void creation_begin(VialTransition *transition)
{
	Creation *creation = (Creation *)transition;
	VialSandbox *sandbox = transition->sandbox;
	g_autofree char *image = creation->snapshot ? vial_snapshot_dir(sandbox->app, creation->snapshot->id) : NULL;

	creation->started_ms = vial_time_monotonic_ms();
	sandbox->generation = vial_generation_new();
	if (creation->snapshot || sandbox->build) /* a build's guest is booted: only then its changes can be packed */
		boot_fresh(creation, image);
	else
		vial_edition_prepare(sandbox->app, sandbox->template_hash, on_edition, creation);
}

static const VialTransitionOps creation_ops = {
	.participle = "created",
	.from = VIAL_FROM(CREATING),
	.suspends_use = TRUE,
	.begin = creation_begin,
	.settle = creation_settle,
};

static VialSandbox *make_sandbox(VialApp *app, const VialIdentity *identity, const VialSandboxCreate *create, json_t *network)
{
	g_autofree char *id = vial_id_new();
	VialSandbox *sandbox = vial_sandbox_new(app, id);

	sandbox->project = g_strdup(identity->project);
	sandbox->key_id = g_strdup(identity->id);
	sandbox->build = g_strdup(create->build);
	sandbox->metadata = create->metadata ? json_incref(create->metadata) : json_object();
	sandbox->env = create->env ? json_incref(create->env) : json_object();
	sandbox->network = network;
	if (create->session) {
		sandbox->agent = g_strdup(create->agent);
		sandbox->version = create->version;
		sandbox->session = g_strdup(create->session);
		sandbox->user = g_strdup(create->user);
		sandbox->is_unprepared = create->is_unprepared;
		vial_session_bind(sandbox);
	}
	return sandbox;
}

/* What it was asked to have goes before what it has from elsewhere. */
static void put_env_below(VialSandbox *sandbox, const json_t *below)
{
	json_t *env = json_deep_copy(below);

	json_object_update(env, sandbox->env);
	json_decref(sandbox->env);
	sandbox->env = env;
}

static void apply_template(VialSandbox *sandbox, const VialTemplate *template)
{
	sandbox->template_name = g_strdup(template->name);
	sandbox->rootfs = g_strdup(template->rootfs);
	sandbox->runtime_dir = g_strdup(vial_templates_runtime_dir(sandbox->app->templates));
	sandbox->layers = g_strdupv(template->layers);
	sandbox->workdir = g_strdup(template->workdir);
	sandbox->limits = template->limits;
	if (template->env)
		put_env_below(sandbox, template->env);
}

static char *fact(const VialSnapshot *snapshot, const char *name)
{
	return g_strdup(json_string_value(json_object_get(snapshot->facts, name)));
}

/* A snapshot brings its own image, kernels, sizes and environment; the request may add to the environment. */
static void apply_snapshot(VialSandbox *sandbox, const VialSnapshot *snapshot, const char *template_name)
{
	sandbox->template_name = g_strdup(template_name ? template_name : snapshot->template_name);
	sandbox->template_hash = fact(snapshot, "template_hash");
	sandbox->rootfs = fact(snapshot, "rootfs");
	sandbox->runtime_dir = fact(snapshot, "runtime_dir");
	sandbox->layers = vial_snapshot_layers(snapshot);
	sandbox->workdir = fact(snapshot, "workdir");
	sandbox->from_snapshot = g_strdup(snapshot->id);
	sandbox->memory_of = vial_snapshot_memory_of(snapshot);
	if (!sandbox->session) /* a session's is its own user's, whoever's memory it began with */
		sandbox->user = fact(snapshot, "user");
	sandbox->limits = vial_snapshot_limits(snapshot);
	put_env_below(sandbox, json_object_get(snapshot->facts, "env"));
}

/* A snapshot's machine has the size it had, where the engine cannot change it. */
static gboolean may_resize(VialApp *app, const VialSandbox *sandbox, const VialSnapshot *snapshot, GError **error)
{
	VialLimits saved = vial_snapshot_limits(snapshot);

	return vial_engine_fits(app->engine, &saved, &sandbox->limits) ||
	       vial_fail(error, VIAL_ERROR_INVALID,
	                 "a sandbox from this snapshot has the snapshot's memory (%" G_GINT64_FORMAT " MB) and at most its %g processors here",
	                 (gint64)saved.memory_mb, saved.cpu);
}

/* What it is made from, what it may reach, how large it is, and whether there is room for it. */
static gboolean may_have(VialSandbox *sandbox, const VialIdentity *identity, GError **error)
{
	VialApp *app = sandbox->app;

	return vial_ceiling_template(app, identity, sandbox->template_name, error) &&
	       vial_ceiling_network(app, identity, json_string_value(json_object_get(sandbox->network, "mode")), error) &&
	       vial_ceiling_size(app, identity, &sandbox->limits, error) && vial_capacity_admit(sandbox, 1, error) &&
	       vial_quota_admit(sandbox, identity, error);
}

static gboolean may_create(VialApp *app, const VialSandboxCreate *create, GError **error)
{
	if (create->engine && strcmp(create->engine, "auto") != 0 && strcmp(create->engine, app->engine->ops->name) != 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "engine \"%s\" is not available here; this host runs \"%s\"", create->engine,
		                 app->engine->ops->name);
	return TRUE;
}

/* What a name means: a template to restore or boot, or one that is a snapshot. */
static gboolean find_origin(VialApp *app, const VialIdentity *identity, const char *name, VialTemplate **out_template, VialSnapshot **out_snapshot,
                            GError **error)
{
	const VialCustomTemplate *custom = vial_custom_templates_find(app, identity->project, name);

	*out_template = vial_templates_find_in(app->templates, identity->project, name);
	if (custom && custom->snapshot_id) {
		*out_template = NULL;
		*out_snapshot = vial_snapshots_by_id(app, custom->snapshot_id);
	}
	if (*out_template || *out_snapshot)
		return TRUE;
	if (custom)
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "no sandbox can be made of the template \"%s\": %s", name,
		                 custom->problem ? custom->problem : "its snapshot is gone");
	return vial_fail(error, VIAL_ERROR_INVALID, "there is no template \"%s\"; GET /v1/templates lists them", name);
}

void vial_sandboxes_create(VialApp *app, const VialIdentity *identity, const VialSandboxCreate *create, VialSandboxDone done, gpointer data)
{
	const char *name = create->template_name ? create->template_name : app->config->default_template;
	VialTemplate *template = NULL;
	VialSnapshot *snapshot = NULL;
	g_autoptr(GError) error = NULL;
	json_t *network = NULL;
	VialSandbox *sandbox;
	Creation *creation;

	if (create->from_snapshot)
		snapshot = vial_snapshots_find(app, identity, create->from_snapshot, &error);
	else
		find_origin(app, identity, name, &template, &snapshot, &error);
	if (!error && may_create(app, create, &error))
		network = create->network ? vial_slots_read_network(app->config, create->network, &error) : json_pack("{s:s}", "mode", "disabled");
	if (!network) {
		done(NULL, error, data);
		return;
	}
	sandbox = make_sandbox(app, identity, create, network);
	if (snapshot)
		apply_snapshot(sandbox, snapshot, create->from_snapshot ? NULL : name);
	else
		apply_template(sandbox, template);
	if (create->cpu > 0)
		sandbox->limits.cpu = create->cpu;
	if (create->memory_mb > 0)
		sandbox->limits.memory_mb = create->memory_mb;
	if (create->disk_mb > 0)
		sandbox->limits.disk_mb = create->disk_mb;
	if (template)
		sandbox->template_hash = g_strdup((sandbox->build ? template : vial_edition_for(app, template, &sandbox->limits))->hash);
	if (!apply_lifecycle(sandbox, identity, create, &error) || (snapshot && !may_resize(app, sandbox, snapshot, &error)) ||
	    !may_have(sandbox, identity, &error)) {
		sandbox->state = VIAL_STATE_DELETED;
		vial_sandbox_forget(sandbox);
		done(NULL, error, data);
		return;
	}
	creation = g_new0(Creation, 1);
	if (template) {
		template->is_wanted = TRUE;
		creation->has_start = vial_template_has_start(template);
	}
	creation->done = done;
	creation->data = data;
	creation->snapshot = snapshot;
	if (snapshot)
		snapshot->users++;
	vial_transition_push(&creation->base, &creation_ops, sandbox, VIAL_QUEUE_LAST);
}
