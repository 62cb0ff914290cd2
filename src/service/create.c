/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a sandbox: read the request, then restore the template's checkpoint, or boot cold where there is none. */
#include <string.h>

#include "service/boot.h"
#include "service/pool.h"
#include "service/sandbox_private.h"
#include "service/slots.h"
#include "service/snapshot.h"
#include "util/id.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

#define MAX_METADATA_PAIRS 64
#define MAX_METADATA_BYTES 1024
#define MAX_ENV_PAIRS 256
#define MAX_ENV_BYTES (32 * 1024)
#define MIN_MEMORY_MB 128
#define MAX_MEMORY_MB (64 * 1024)

static const char *const on_idle_choices[] = { "delete", "hibernate", NULL };

gboolean vial_env_check_names(json_t *env, GError **error)
{
	const char *name;
	json_t *value;

	json_object_foreach (env, name, value)
		if (!*name || strchr(name, '='))
			return vial_fail(error, VIAL_ERROR_INVALID, "env has a name that no environment variable can have: \"%s\"", name);
	return TRUE;
}

gboolean vial_sandbox_create_parse(json_t *body, VialSandboxCreate *out, GError **error)
{
	VialSandboxCreate create = { .ttl_seconds = -1, .idle_seconds = -1, .on_idle = -1 };

	if (!vial_json_get_string(body, "template", VIAL_JSON_NONEMPTY, 128, &create.template_name, error) ||
	    !vial_json_get_string(body, "engine", VIAL_JSON_NONEMPTY, 32, &create.engine, error) ||
	    !vial_json_get_string(body, "from_snapshot", VIAL_JSON_NONEMPTY, 128, &create.from_snapshot, error) ||
	    !vial_json_get_double(body, "cpu", 0, 0.1, 64, &create.cpu, error) ||
	    !vial_json_get_int(body, "memory_mb", 0, MIN_MEMORY_MB, MAX_MEMORY_MB, &create.memory_mb, error) ||
	    !vial_json_get_int(body, "ttl_seconds", 0, 0, G_MAXINT32, &create.ttl_seconds, error) ||
	    !vial_json_get_int(body, "idle_seconds", 0, 0, G_MAXINT32, &create.idle_seconds, error) ||
	    !vial_json_get_choice(body, "on_idle", 0, on_idle_choices, &create.on_idle, error) ||
	    !vial_json_get_bool(body, "persistent", 0, &create.persistent, error) ||
	    !vial_json_get_string_map(body, "metadata", 0, MAX_METADATA_PAIRS, 128, MAX_METADATA_BYTES, &create.metadata, error) ||
	    !vial_json_get_string_map(body, "env", 0, MAX_ENV_PAIRS, 256, MAX_ENV_BYTES, &create.env, error) ||
	    !vial_json_get_object(body, "network", 0, &create.network, error) || !vial_env_check_names(create.env, error))
		return FALSE;
	*out = create;
	return TRUE;
}

static gboolean apply_lifecycle(VialSandbox *sandbox, const VialSandboxCreate *create, GError **error)
{
	const VialConfig *config = sandbox->app->config;
	gint64 ttl = create->ttl_seconds;

	sandbox->persistent = create->persistent;
	sandbox->on_idle = create->on_idle >= 0 ? (VialOnIdle)create->on_idle :
	                   create->persistent   ? VIAL_ON_IDLE_HIBERNATE :
	                                          VIAL_ON_IDLE_DELETE;
	sandbox->idle_seconds = create->idle_seconds >= 0 ? create->idle_seconds : config->default_idle_seconds;
	if (ttl < 0)
		ttl = create->persistent ? 0 : config->default_ttl_seconds;
	if (config->max_ttl_seconds > 0 && !create->persistent && (ttl == 0 || ttl > config->max_ttl_seconds))
		return vial_fail(error, VIAL_ERROR_INVALID, "ttl_seconds must be between 1 and %" G_GINT64_FORMAT " here",
		                 (gint64)config->max_ttl_seconds);
	vial_sandbox_set_ttl(sandbox, ttl);
	return TRUE;
}

typedef struct {
	VialSandbox *sandbox;
	VialSandboxDone done;
	gpointer data;
	gint64 started_ms;
} Creation;

static void creation_end(Creation *creation, const GError *error)
{
	VialSandbox *sandbox = creation->sandbox;

	sandbox->transition = NULL;
	creation->done(error ? NULL : sandbox, error, creation->data);
	g_free(creation);
}

/* Whoever was told of a sandbox finds it again, even if we are killed right after the answer; a record that cannot be written only loses that. */
static void on_stored(const GError *error, gpointer data)
{
	Creation *creation = data;
	g_autoptr(VialSandbox) sandbox = creation->sandbox;

	creation_end(creation, NULL);
	vial_sandbox_transition_done(sandbox);
}

static void on_booted(VialInstance *instance, const GError *error, gpointer data)
{
	Creation *creation = data;
	VialSandbox *sandbox = creation->sandbox;

	if (error) {
		vial_log_warning("sandbox", "could not be created", "sandbox_id", sandbox->id, "error", error->message);
		vial_sandbox_set_state(sandbox, VIAL_STATE_DELETED, NULL);
		creation_end(creation, error);
		vial_sandbox_forget(sandbox);
		vial_sandbox_unref(sandbox);
		return;
	}
	sandbox->boot_ms = vial_time_monotonic_ms() - creation->started_ms;
	vial_sandbox_set_running(sandbox, instance);
	vial_sandbox_store_then(sandbox, on_stored, creation);
}

/* A pooled guest whose HELLO failed is of no use to anybody: boot a fresh one instead. */
static void boot_fresh(Creation *creation, const char *image);

static void on_claimed(VialInstance *instance, const GError *error, gpointer data)
{
	Creation *creation = data;
	VialSandbox *sandbox = creation->sandbox;
	VialTemplate *template;

	if (!error)
		return on_booted(instance, NULL, creation);
	vial_log_warning("pool", "a pooled sandbox did not take its owner", "sandbox_id", sandbox->id, "error", error->message);
	vial_instance_stop(sandbox->instance);
	g_clear_pointer(&sandbox->instance, vial_instance_free);
	vial_sweep(sandbox->app, sandbox->host_id, NULL, NULL);
	template = vial_templates_find(sandbox->app->templates, sandbox->template_name);
	/* Replaced meanwhile: its checkpoint does not fit this sandbox's image. */
	boot_fresh(creation, template && strcmp(template->hash, sandbox->template_hash) == 0 ? template->checkpoint : NULL);
}

static VialBootSpec boot_spec(const VialSandbox *sandbox)
{
	return (VialBootSpec){
		.sandbox_id = sandbox->id,
		.host_id = sandbox->host_id,
		.rootfs = sandbox->rootfs,
		.runtime_dir = sandbox->runtime_dir,
		.limits = sandbox->limits,
		.generation = sandbox->generation,
		.env = sandbox->env,
		.network = sandbox->network,
	};
}

static void set_boot_mode(VialSandbox *sandbox, const char *mode)
{
	g_free(sandbox->boot_mode);
	sandbox->boot_mode = g_strdup(mode);
}

static void boot_fresh(Creation *creation, const char *image)
{
	VialSandbox *sandbox = creation->sandbox;
	VialBootSpec spec = boot_spec(sandbox);

	set_boot_mode(sandbox, image ? "restore" : "cold");
	g_clear_pointer(&sandbox->host_id, g_free);
	vial_pool_fill_spec(sandbox->app, &spec, &sandbox->host_id);
	spec.image = image;
	vial_sandbox_store(sandbox);
	vial_boot(sandbox->app, &spec, on_booted, creation);
}

/* The pool first, then the checkpoint; `template` is NULL when it starts from a snapshot. */
static void start(VialSandbox *sandbox, VialTemplate *template, const char *image, VialSandboxDone done, gpointer data)
{
	Creation *creation = g_new0(Creation, 1);
	g_autofree char *host_id = NULL;
	VialInstance *pooled = template ? vial_pool_claim(sandbox->app->pool, template, &sandbox->limits, &host_id) : NULL;
	g_autoptr(GError) error = NULL;
	VialBootSpec spec;

	creation->sandbox = vial_sandbox_ref(sandbox);
	creation->done = done;
	creation->data = data;
	creation->started_ms = vial_time_monotonic_ms();
	sandbox->transition = creation;
	sandbox->generation = vial_generation_new();
	if (!pooled)
		return boot_fresh(creation, image);
	g_free(sandbox->host_id);
	sandbox->host_id = g_steal_pointer(&host_id);
	sandbox->instance = pooled;
	set_boot_mode(sandbox, "pool");
	vial_sandbox_store(sandbox);
	sandbox->app->engine->ops->limit(sandbox->app->engine, sandbox->host_id, &sandbox->limits, NULL);
	if (!vial_slots_set_policy(sandbox->app->slots, sandbox->host_id, sandbox->network, &error))
		return on_claimed(NULL, error, creation);
	spec = boot_spec(sandbox);
	vial_boot_hello(sandbox->app, pooled, &spec, on_claimed, creation);
}

static VialSandbox *make_sandbox(VialApp *app, const VialIdentity *identity, const VialSandboxCreate *create, json_t *network)
{
	g_autofree char *id = vial_id_new();
	VialSandbox *sandbox = vial_sandbox_new(app, id);

	sandbox->project = g_strdup(identity->project);
	sandbox->key_id = g_strdup(identity->key_id);
	sandbox->metadata = create->metadata ? json_incref(create->metadata) : json_object();
	sandbox->env = create->env ? json_incref(create->env) : json_object();
	sandbox->network = network;
	return sandbox;
}

static void apply_template(VialSandbox *sandbox, const VialTemplate *template)
{
	sandbox->template_name = g_strdup(template->name);
	sandbox->template_hash = g_strdup(template->hash);
	sandbox->rootfs = g_strdup(template->rootfs);
	sandbox->runtime_dir = g_strdup(vial_templates_runtime_dir(sandbox->app->templates));
	sandbox->limits = template->limits;
}

static char *fact(const VialSnapshot *snapshot, const char *name)
{
	return g_strdup(json_string_value(json_object_get(snapshot->facts, name)));
}

static gint64 number(const VialSnapshot *snapshot, const char *name)
{
	return json_integer_value(json_object_get(snapshot->facts, name));
}

static VialLimits limits_of(const VialSnapshot *snapshot)
{
	return (VialLimits){ .cpu = json_number_value(json_object_get(snapshot->facts, "cpu")),
		             .memory_mb = number(snapshot, "memory_mb"),
		             .disk_mb = number(snapshot, "disk_mb"),
		             .process_limit = number(snapshot, "process_limit") };
}

/* A snapshot brings its own image, kernels, sizes and environment; the request may add to the environment. */
static void apply_snapshot(VialSandbox *sandbox, const VialSnapshot *snapshot)
{
	json_t *env = json_deep_copy(json_object_get(snapshot->facts, "env"));

	sandbox->template_name = g_strdup(snapshot->template_name);
	sandbox->template_hash = fact(snapshot, "template_hash");
	sandbox->rootfs = fact(snapshot, "rootfs");
	sandbox->runtime_dir = fact(snapshot, "runtime_dir");
	sandbox->from_snapshot = g_strdup(snapshot->id);
	sandbox->limits = limits_of(snapshot);
	json_object_update(env, sandbox->env);
	json_decref(sandbox->env);
	sandbox->env = env;
}

/* A snapshot's machine has the size it had, where the engine cannot change it. */
static gboolean may_resize(VialApp *app, const VialSandbox *sandbox, const VialSnapshot *snapshot, GError **error)
{
	VialLimits saved = limits_of(snapshot);

	return vial_engine_fits(app->engine, &saved, &sandbox->limits) ||
	       vial_fail(error, VIAL_ERROR_INVALID,
	                 "a sandbox from this snapshot has the snapshot's memory (%" G_GINT64_FORMAT " MB) and at most its %g processors here",
	                 (gint64)saved.memory_mb, saved.cpu);
}

static gboolean may_create(VialApp *app, const VialSandboxCreate *create, GError **error)
{
	if (app->is_draining)
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "this Vial is shutting down and takes no new sandboxes");
	if (create->engine && strcmp(create->engine, "auto") != 0 && strcmp(create->engine, app->engine->ops->name) != 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "engine \"%s\" is not available here; this host runs \"%s\"", create->engine,
		                 app->engine->ops->name);
	if (vial_sandboxes_count(app->sandboxes) >= (guint)app->config->max_sandboxes)
		return vial_fail(error, VIAL_ERROR_QUOTA, "this Vial already has %d sandboxes, its limit; delete some or raise max_sandboxes",
		                 (int)app->config->max_sandboxes);
	return TRUE;
}

void vial_sandboxes_create(VialApp *app, const VialIdentity *identity, const VialSandboxCreate *create, VialSandboxDone done,
                           gpointer data)
{
	const char *name = create->template_name ? create->template_name : app->config->default_template;
	VialTemplate *template = NULL;
	VialSnapshot *snapshot = NULL;
	g_autoptr(GError) error = NULL;
	g_autofree char *image = NULL;
	json_t *network = NULL;
	VialSandbox *sandbox;

	if (create->from_snapshot)
		snapshot = vial_snapshots_find(app, identity, create->from_snapshot, &error);
	else if (!(template = vial_templates_find(app->templates, name)))
		error = g_error_new(VIAL_ERROR, VIAL_ERROR_INVALID, "there is no template \"%s\"; GET /v1/templates lists them", name);
	if (!error && may_create(app, create, &error))
		network = create->network ? vial_slots_read_network(app->config, create->network, &error) : json_pack("{s:s}", "mode", "disabled");
	if (!network) {
		done(NULL, error, data);
		return;
	}
	sandbox = make_sandbox(app, identity, create, network);
	if (snapshot)
		apply_snapshot(sandbox, snapshot);
	else
		apply_template(sandbox, template);
	if (create->cpu > 0)
		sandbox->limits.cpu = create->cpu;
	if (create->memory_mb > 0)
		sandbox->limits.memory_mb = create->memory_mb;
	if (!apply_lifecycle(sandbox, create, &error) || (snapshot && !may_resize(app, sandbox, snapshot, &error))) {
		sandbox->state = VIAL_STATE_DELETED;
		vial_sandbox_forget(sandbox);
		done(NULL, error, data);
		return;
	}
	if (snapshot)
		image = vial_snapshot_dir(app, snapshot->id);
	else if (vial_engine_fits(app->engine, &template->limits, &sandbox->limits))
		image = g_strdup(template->checkpoint); /* else it is booted with its own size */
	start(sandbox, template, image, done, data);
}
