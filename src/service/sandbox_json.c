/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as the API shows it and as the store keeps it: a table for each. */
#include <string.h>

#include "audit/audit.h"
#include "service/sandbox_private.h"
#include "service/sessions.h"
#include "service/slots.h"
#include "service/undo.h"
#include "util/error.h"
#include "util/id.h"
#include "util/json.h"
#include "util/json_fields.h"
#include "util/log.h"
#include "util/tier.h"
#include "util/time.h"

static const char *const on_idle_names[] = { [VIAL_ON_IDLE_DELETE] = "delete", [VIAL_ON_IDLE_HIBERNATE] = "hibernate", NULL };

static json_t *engine_name(gconstpointer instance)
{
	const VialSandbox *sandbox = instance;

	return json_string(sandbox->app->engine->ops->name);
}

static json_t *isolation(gconstpointer instance)
{
	const VialSandbox *sandbox = instance;

	return json_string(sandbox->app->engine->ops->isolation);
}

/* NULL: a size without a name. */
static json_t *tier(gconstpointer instance)
{
	const VialSandbox *sandbox = instance;
	const VialTier *named = vial_tier_of(sandbox->limits.cpu, sandbox->limits.memory_mb);

	return named ? json_string(named->name) : NULL;
}

static json_t *status(gconstpointer instance)
{
	const VialSandbox *sandbox = instance;

	return json_string(vial_state_name(sandbox->state));
}

static json_t *boot_mode(gconstpointer instance)
{
	const VialSandbox *sandbox = instance;

	return json_string(sandbox->boot_mode ? sandbox->boot_mode : "cold");
}

static json_t *slot_name(gconstpointer instance)
{
	const VialSandbox *sandbox = instance;
	const char *name = vial_slots_name(sandbox->app->slots, sandbox->host_id);

	return name ? json_string(name) : NULL;
}

static json_t *undos(gconstpointer instance)
{
	return json_integer(vial_undo_count(instance));
}

static json_t *version(gconstpointer instance)
{
	const VialSandbox *sandbox = instance;

	return sandbox->session ? json_integer(sandbox->version) : NULL;
}

static json_t *user(gconstpointer instance)
{
	const VialSandbox *sandbox = instance;

	return sandbox->user && *sandbox->user ? json_string(sandbox->user) : NULL;
}

/* What its owner sees. */
static const VialField shown[] = {
	{ VIAL_FIELD("id", TEXT, VialSandbox, id) },
	{ VIAL_FIELD("template", TEXT, VialSandbox, template_name) },
	{ .name = "engine", .type = VIAL_FIELD_VALUE, .get = engine_name },
	{ .name = "isolation", .type = VIAL_FIELD_VALUE, .get = isolation },
	{ .name = "tier", .type = VIAL_FIELD_VALUE, .get = tier },
	{ VIAL_FIELD("cpu", DOUBLE, VialSandbox, limits.cpu) },
	{ VIAL_FIELD("memory_mb", INT, VialSandbox, limits.memory_mb) },
	{ VIAL_FIELD("disk_mb", INT, VialSandbox, limits.disk_mb) },
	{ .name = "status", .type = VIAL_FIELD_VALUE, .get = status },
	{ VIAL_FIELD("reason", TEXT, VialSandbox, reason) },
	{ VIAL_FIELD("metadata", OBJECT, VialSandbox, metadata) },
	{ VIAL_FIELD("network", OBJECT, VialSandbox, network) },
	{ VIAL_FIELD("boot_ms", INT, VialSandbox, boot_ms) },
	{ .name = "boot_mode", .type = VIAL_FIELD_VALUE, .get = boot_mode },
	{ VIAL_FIELD("from_snapshot", TEXT, VialSandbox, from_snapshot) },
	{ VIAL_FIELD("parent", TEXT, VialSandbox, parent) },
	{ VIAL_FIELD("tree_id", TEXT, VialSandbox, tree_id) },
	{ .name = "undos", .type = VIAL_FIELD_VALUE, .get = undos },
	{ VIAL_FIELD("agent", TEXT, VialSandbox, agent) },
	{ .name = "version", .type = VIAL_FIELD_VALUE, .get = version },
	{ VIAL_FIELD("session", TEXT, VialSandbox, session) },
	{ .name = "user", .type = VIAL_FIELD_VALUE, .get = user },
	{ VIAL_FIELD("created_at", TIME, VialSandbox, created_at_ms) },
	{ VIAL_FIELD("expires_at", TIME, VialSandbox, expires_at_ms) },
	{ VIAL_FIELD("ttl_seconds", INT, VialSandbox, ttl_seconds) },
	{ VIAL_FIELD("idle_seconds", INT, VialSandbox, idle_seconds) },
	{ VIAL_FIELD("on_idle", ENUM, VialSandbox, on_idle), .names = on_idle_names },
	{ VIAL_FIELD("persistent", BOOL, VialSandbox, persistent) },
};

static const VialField lifecycle[] = {
	{ VIAL_FIELD("ttl_seconds", INT, VialSandbox, ttl_seconds) },
	{ VIAL_FIELD("idle_seconds", INT, VialSandbox, idle_seconds) },
	{ VIAL_FIELD("on_idle", ENUM, VialSandbox, on_idle), .names = on_idle_names },
	{ VIAL_FIELD("persistent", BOOL, VialSandbox, persistent) },
	{ VIAL_FIELD("expires_at", TIME, VialSandbox, expires_at_ms) },
	{ .name = "status", .type = VIAL_FIELD_VALUE, .get = status },
};

/*
 * Everything the store's columns do not say. The environment may hold secrets, hence the database's mode of 0600. What is required is what a sandbox
 * cannot be taken up again without.
 */
static const VialField kept[] = {
	{ VIAL_FIELD("template_hash", TEXT, VialSandbox, template_hash) },
	{ VIAL_FIELD("rootfs", TEXT, VialSandbox, rootfs), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("runtime_dir", TEXT, VialSandbox, runtime_dir), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("layers", LIST, VialSandbox, layers) },
	{ VIAL_FIELD("workdir", TEXT, VialSandbox, workdir) },
	{ VIAL_FIELD("host_id", TEXT, VialSandbox, host_id), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("generation", TEXT, VialSandbox, generation) },
	{ VIAL_FIELD("slot", TEXT, VialSandbox, slot_name), .get = slot_name },
	{ VIAL_FIELD("cpu", DOUBLE, VialSandbox, limits.cpu), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("memory_mb", INT, VialSandbox, limits.memory_mb), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("disk_mb", INT, VialSandbox, limits.disk_mb), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("process_limit", INT, VialSandbox, limits.process_limit), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("metadata", OBJECT, VialSandbox, metadata), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("env", OBJECT, VialSandbox, env), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("network", OBJECT, VialSandbox, network), .flags = VIAL_JSON_REQUIRED },
	{ VIAL_FIELD("reason", TEXT, VialSandbox, reason) },
	{ VIAL_FIELD("boot_mode", TEXT, VialSandbox, boot_mode) },
	{ VIAL_FIELD("boot_ms", INT, VialSandbox, boot_ms) },
	{ VIAL_FIELD("ttl_seconds", INT, VialSandbox, ttl_seconds) },
	{ VIAL_FIELD("is_on_trial", BOOL, VialSandbox, is_on_trial) },
	{ VIAL_FIELD("life_seconds", INT, VialSandbox, life_seconds) },
	{ VIAL_FIELD("idle_seconds", INT, VialSandbox, idle_seconds) },
	{ VIAL_FIELD("on_idle", ENUM, VialSandbox, on_idle) },
	{ VIAL_FIELD("persistent", BOOL, VialSandbox, persistent) },
	{ VIAL_FIELD("is_resting", BOOL, VialSandbox, is_resting) },
	{ VIAL_FIELD("rests_when_over", BOOL, VialSandbox, rests_when_over) },
	{ VIAL_FIELD("wakes_by_use", BOOL, VialSandbox, wakes_by_use) },
	{ VIAL_FIELD("rest_seconds", INT, VialSandbox, rest_seconds) },
	{ VIAL_FIELD("agent", TEXT, VialSandbox, agent) },
	{ VIAL_FIELD("version", INT, VialSandbox, version) },
	{ VIAL_FIELD("session", TEXT, VialSandbox, session) },
	{ VIAL_FIELD("user", TEXT, VialSandbox, user) },
	{ VIAL_FIELD("memory_of", LIST, VialSandbox, memory_of) },
	{ VIAL_FIELD("is_unprepared", BOOL, VialSandbox, is_unprepared) },
	{ VIAL_FIELD("last_call_at", INT, VialSandbox, last_call_at_ms) },
	{ VIAL_FIELD("build", TEXT, VialSandbox, build) },
	{ VIAL_FIELD("from_snapshot", TEXT, VialSandbox, from_snapshot) },
	{ VIAL_FIELD("parent", TEXT, VialSandbox, parent) },
	{ VIAL_FIELD("tree_id", TEXT, VialSandbox, tree_id) },
};

json_t *vial_sandbox_json(const VialSandbox *sandbox)
{
	return vial_fields_write(shown, G_N_ELEMENTS(shown), sandbox);
}

void vial_sandbox_identify(const VialSandbox *sandbox, json_t *header)
{
	json_object_set_new(header, "sandbox", json_string(sandbox->id));
	json_object_set_new(header, "template", json_string(sandbox->template_name));
	if (sandbox->template_hash)
		json_object_set_new(header, "image", json_string(sandbox->template_hash));
	json_object_set_new(header, "engine", json_string(sandbox->app->engine->ops->name));
	if (sandbox->agent)
		json_object_set_new(header, "agent", json_string(sandbox->agent));
	if (sandbox->user && *sandbox->user)
		json_object_set_new(header, "user", json_string(sandbox->user));
	if (!sandbox->session)
		return;
	json_object_set_new(header, "version", json_integer(sandbox->version));
	json_object_set_new(header, "session", json_string(sandbox->session));
}

void vial_sandbox_record(const VialSandbox *sandbox, const char *action, const char *reason)
{
	json_t *header = json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}}", "action", action, "outcome", "done", "project", sandbox->project,
	                           "principal", "kind", "system", "id", "system", "name", "viald");
	g_autoptr(GError) error = NULL;

	vial_sandbox_identify(sandbox, header);
	if (!vial_audit_add(sandbox->app->audit, header, json_pack("{s:s*}", "reason", reason), TRUE, &error))
		vial_log_error("audit", "what happened to a sandbox could not be recorded", "sandbox_id", sandbox->id, "action", action, "error",
		               error->message);
}

json_t *vial_sandbox_lifecycle_json(const VialSandbox *sandbox)
{
	return vial_fields_write(lifecycle, G_N_ELEMENTS(lifecycle), sandbox);
}

void vial_sandbox_store(VialSandbox *sandbox)
{
	vial_sandbox_store_then(sandbox, NULL, NULL);
}

void vial_sandbox_store_then(VialSandbox *sandbox, VialStoreDone done, gpointer data)
{
	vial_sandbox_store_exchange(sandbox, NULL, NULL, done, data);
}

void vial_sandbox_store_exchange(VialSandbox *sandbox, const char *gone_sandbox, const char *gone_snapshot, VialStoreDone done, gpointer data)
{
	g_autoptr(json_t) document = NULL;
	g_autofree char *text = NULL;

	/* What we could not read, somebody else may still repair: it is not written over. */
	if (sandbox->is_damaged) {
		g_autoptr(GError) error = g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "%s", sandbox->reason);

		if (done)
			done(error, data);
		return;
	}
	sandbox->told_last_call_at_ms = sandbox->last_call_at_ms;
	document = vial_fields_write(kept, G_N_ELEMENTS(kept), sandbox);
	text = vial_json_dump(document);
	VialSandboxRecord record = {
		.id = sandbox->id,
		.project = sandbox->project,
		.key_id = sandbox->key_id,
		.template_name = sandbox->template_name,
		.engine = (char *)sandbox->app->engine->ops->name,
		.status = (char *)vial_state_name(sandbox->state),
		.document = text,
		.created_at = sandbox->created_at_ms,
		.updated_at = vial_time_now_ms(),
		.expires_at = sandbox->expires_at_ms,
	};

	if (gone_sandbox || gone_snapshot)
		vial_store_exchange_sandbox(sandbox->app->store, &record, gone_sandbox, gone_snapshot, done, data);
	else
		vial_store_put_sandbox(sandbox->app->store, &record, done, data);
}

static gboolean read_document(VialSandbox *sandbox, const VialSandboxRecord *record, GError **error)
{
	g_autoptr(json_t) document = vial_json_parse_object(record->document, strlen(record->document), error);

	if (!document || !vial_fields_read(kept, G_N_ELEMENTS(kept), document, sandbox, error))
		return FALSE;
	if (!vial_id_is_valid(sandbox->host_id) || sandbox->on_idle > VIAL_ON_IDLE_HIBERNATE)
		return vial_fail(error, VIAL_ERROR_INVALID, "its host_id or on_idle is none");
	return vial_state_parse(record->status, &sandbox->state) || vial_fail(error, VIAL_ERROR_INVALID, "its status is none");
}

/* No clock ends it, nothing is written over it, and whatever the disk or the kernel has of it stays: see adopt.c. */
static void mark_damaged(VialSandbox *sandbox, const char *problem)
{
	sandbox->is_damaged = TRUE;
	sandbox->state = VIAL_STATE_FAILED;
	sandbox->on_idle = VIAL_ON_IDLE_DELETE;
	sandbox->expires_at_ms = 0;
	g_free(sandbox->reason);
	sandbox->reason = g_strdup_printf("record_damaged: what is recorded of it cannot be read (%s); repair its row in the database and restart "
	                                  "viald, or delete it",
	                                  problem);
}

VialSandbox *vial_sandbox_from_record(VialApp *app, const VialSandboxRecord *record)
{
	VialSandbox *sandbox = vial_sandbox_new(app, record->id);
	json_t **const objects[] = { &sandbox->metadata, &sandbox->env, &sandbox->network };
	g_autoptr(GError) error = NULL;

	sandbox->project = g_utf8_make_valid(record->project, -1);
	sandbox->key_id = g_utf8_make_valid(record->key_id, -1);
	sandbox->template_name = g_utf8_make_valid(record->template_name, -1);
	sandbox->created_at_ms = record->created_at;
	sandbox->expires_at_ms = record->expires_at;
	if (!read_document(sandbox, record, &error))
		mark_damaged(sandbox, error->message);
	for (gsize i = 0; i < G_N_ELEMENTS(objects); i++)
		if (!*objects[i])
			*objects[i] = json_object();
	if (sandbox->session && (!sandbox->agent || !sandbox->user))
		mark_damaged(sandbox, "it names a session without its agent or user");
	else if (!sandbox->is_damaged)
		vial_session_bind(sandbox);
	return sandbox;
}
