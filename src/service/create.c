/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a sandbox: read the request, then restore the template's checkpoint, or boot cold where there is none. */
#include <string.h>

#include "service/boot.h"
#include "service/sandbox_private.h"
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
static const char *const network_modes[] = { "disabled", NULL };

static gboolean parse_network(json_t *body, json_t **out, GError **error)
{
	json_t *network = json_object_get(body, "network");
	int mode;

	if (!network || json_is_null(network)) {
		*out = NULL;
		return TRUE;
	}
	if (!vial_json_get_object(body, "network", 0, out, error))
		return FALSE;
	return vial_json_get_choice(*out, "mode", VIAL_JSON_REQUIRED, network_modes, &mode, error);
}

static gboolean check_env_names(json_t *env, GError **error)
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
	    !parse_network(body, &create.network, error) || !check_env_names(create.env, error))
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

static void on_booted(VialInstance *instance, const GError *error, gpointer data)
{
	g_autofree Creation *creation = data;
	g_autoptr(VialSandbox) sandbox = creation->sandbox;

	sandbox->lifecycle = NULL;
	if (error) {
		vial_log_warning("sandbox", "could not be created", "sandbox_id", sandbox->id, "error", error->message);
		vial_sandbox_set_state(sandbox, VIAL_STATE_DELETED, NULL);
		vial_sandbox_forget(sandbox);
		creation->done(NULL, error, creation->data);
		return;
	}
	sandbox->boot_ms = vial_time_monotonic_ms() - creation->started_ms;
	vial_sandbox_set_running(sandbox, instance);
	vial_sandbox_store(sandbox);
	creation->done(sandbox, NULL, creation->data);
	if (sandbox->delete_wanted)
		vial_sandbox_delete(sandbox, NULL, NULL);
}

static void start(VialSandbox *sandbox, const char *image, VialSandboxDone done, gpointer data)
{
	Creation *creation = g_new0(Creation, 1);
	VialBootSpec spec = {
		.id = sandbox->id,
		.dir = sandbox->dir,
		.rootfs = sandbox->rootfs,
		.limits = sandbox->limits,
		.image = image,
		.env = sandbox->env,
	};

	creation->sandbox = vial_sandbox_ref(sandbox);
	creation->done = done;
	creation->data = data;
	creation->started_ms = vial_time_monotonic_ms();
	sandbox->lifecycle = creation;
	vial_sandbox_store(sandbox);
	vial_boot(sandbox->app, &spec, on_booted, creation);
}

static VialSandbox *make_sandbox(VialApp *app, const VialIdentity *identity, const VialSandboxCreate *create, VialTemplate *template)
{
	g_autofree char *id = vial_id_new();
	VialSandbox *sandbox = vial_sandbox_new(app, id);

	sandbox->project = g_strdup(identity->project);
	sandbox->key_id = g_strdup(identity->key_id);
	sandbox->template_name = g_strdup(template->name);
	sandbox->template_hash = g_strdup(template->hash);
	sandbox->rootfs = g_strdup(template->rootfs);
	sandbox->limits = template->limits;
	if (create->cpu > 0)
		sandbox->limits.cpu = create->cpu;
	if (create->memory_mb > 0)
		sandbox->limits.memory_mb = create->memory_mb;
	sandbox->metadata = create->metadata ? json_incref(create->metadata) : json_object();
	sandbox->env = create->env ? json_incref(create->env) : json_object();
	sandbox->network = create->network ? json_incref(create->network) : json_pack("{s:s}", "mode", "disabled");
	sandbox->boot_mode = g_strdup(template->checkpoint ? "restore" : "cold");
	return sandbox;
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
	VialTemplate *template = vial_templates_find(app->templates, name);
	g_autoptr(GError) error = NULL;
	VialSandbox *sandbox;

	if (!template)
		error = g_error_new(VIAL_ERROR, VIAL_ERROR_INVALID, "there is no template \"%s\"; GET /v1/templates lists them", name);
	if (error || !may_create(app, create, &error)) {
		done(NULL, error, data);
		return;
	}
	sandbox = make_sandbox(app, identity, create, template);
	if (!apply_lifecycle(sandbox, create, &error)) {
		sandbox->state = VIAL_STATE_DELETED;
		vial_sandbox_forget(sandbox);
		done(NULL, error, data);
		return;
	}
	start(sandbox, template->checkpoint, done, data);
}
