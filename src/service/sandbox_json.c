/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as the API shows it and as the store keeps it. */
#include <string.h>

#include "service/sandbox_private.h"
#include "service/slots.h"
#include "util/json.h"
#include "util/time.h"

static json_t *time_or_null(gint64 time_ms)
{
	char text[VIAL_TIME_TEXT_SIZE];

	if (time_ms == 0)
		return NULL;
	vial_time_fill(text, time_ms);
	return json_string(text);
}

static const char *on_idle_name(VialOnIdle on_idle)
{
	return on_idle == VIAL_ON_IDLE_HIBERNATE ? "hibernate" : "delete";
}

json_t *vial_sandbox_json(const VialSandbox *sandbox)
{
	const VialEngineOps *engine = sandbox->app->engine->ops;

	return json_pack("{s:s, s:s, s:s, s:s, s:f, s:I, s:I, s:s, s:s*, s:O, s:O, s:I, s:s, s:s*, s:s*, s:s*, s:o, s:o*, s:I, s:I, s:s, s:b}",
	                 "id", sandbox->id, "template", sandbox->template_name, "engine", engine->name, "isolation", engine->isolation,
	                 "cpu", sandbox->limits.cpu, "memory_mb", (json_int_t)sandbox->limits.memory_mb, "disk_mb",
	                 (json_int_t)sandbox->limits.disk_mb, "status", vial_state_name(sandbox->state), "reason", sandbox->reason,
	                 "metadata", sandbox->metadata, "network", sandbox->network, "boot_ms", (json_int_t)sandbox->boot_ms, "boot_mode",
	                 sandbox->boot_mode ? sandbox->boot_mode : "cold", "from_snapshot", sandbox->from_snapshot, "parent",
	                 sandbox->parent, "tree_id", sandbox->tree_id, "created_at", time_or_null(sandbox->created_at_ms), "expires_at",
	                 time_or_null(sandbox->expires_at_ms), "ttl_seconds", (json_int_t)sandbox->ttl_seconds, "idle_seconds",
	                 (json_int_t)sandbox->idle_seconds, "on_idle", on_idle_name(sandbox->on_idle), "persistent", sandbox->persistent);
}

json_t *vial_sandbox_lifecycle_json(const VialSandbox *sandbox)
{
	return json_pack("{s:I, s:I, s:s, s:b, s:o*, s:s}", "ttl_seconds", (json_int_t)sandbox->ttl_seconds, "idle_seconds",
	                 (json_int_t)sandbox->idle_seconds, "on_idle", on_idle_name(sandbox->on_idle), "persistent", sandbox->persistent,
	                 "expires_at", time_or_null(sandbox->expires_at_ms), "status", vial_state_name(sandbox->state));
}

/* Everything the columns do not say. The environment may hold secrets, hence the database's mode of 0600. */
static char *document(const VialSandbox *sandbox)
{
	g_autoptr(json_t) json =
	        json_pack("{s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:f, s:I, s:I, s:I, s:O, s:O, s:O, s:s*, s:s*, s:I, s:I, s:I, s:i, s:b, s:s*, s:s*, s:s*}",
	                  "template_hash", sandbox->template_hash, "rootfs", sandbox->rootfs, "runtime_dir", sandbox->runtime_dir, "host_id", sandbox->host_id,
	                  "generation", sandbox->generation, "slot", vial_slots_name(sandbox->app->slots, sandbox->host_id), "cpu", sandbox->limits.cpu, "memory_mb",
	                  (json_int_t)sandbox->limits.memory_mb, "disk_mb", (json_int_t)sandbox->limits.disk_mb, "process_limit",
	                  (json_int_t)sandbox->limits.process_limit, "metadata", sandbox->metadata, "env", sandbox->env, "network",
	                  sandbox->network, "reason", sandbox->reason, "boot_mode", sandbox->boot_mode, "boot_ms",
	                  (json_int_t)sandbox->boot_ms, "ttl_seconds", (json_int_t)sandbox->ttl_seconds, "idle_seconds",
	                  (json_int_t)sandbox->idle_seconds, "on_idle", (int)sandbox->on_idle, "persistent", sandbox->persistent,
	                  "from_snapshot", sandbox->from_snapshot, "parent", sandbox->parent, "tree_id", sandbox->tree_id);

	return vial_json_dump(json);
}

void vial_sandbox_store(VialSandbox *sandbox)
{
	vial_sandbox_store_then(sandbox, NULL, NULL);
}

void vial_sandbox_store_then(VialSandbox *sandbox, VialStoreDone done, gpointer data)
{
	g_autofree char *text = document(sandbox);
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

	vial_store_put_sandbox(sandbox->app->store, &record, done, data);
}

static gint64 int_of(json_t *json, const char *field)
{
	return json_integer_value(json_object_get(json, field));
}

static char *text_of(json_t *json, const char *field)
{
	return g_strdup(json_string_value(json_object_get(json, field)));
}

static json_t *object_of(json_t *json, const char *field)
{
	json_t *value = json_object_get(json, field);

	return json_is_object(value) ? json_incref(value) : json_object();
}

VialSandbox *vial_sandbox_from_record(VialApp *app, const VialSandboxRecord *record)
{
	g_autoptr(json_t) json = json_loads(record->document ? record->document : "{}", 0, NULL);
	VialSandbox *sandbox = vial_sandbox_new(app, record->id);

	sandbox->project = g_strdup(record->project);
	sandbox->key_id = g_strdup(record->key_id);
	sandbox->template_name = g_strdup(record->template_name);
	sandbox->template_hash = text_of(json, "template_hash");
	sandbox->rootfs = text_of(json, "rootfs");
	sandbox->runtime_dir = text_of(json, "runtime_dir");
	sandbox->generation = text_of(json, "generation");
	g_free(sandbox->host_id);
	sandbox->host_id = text_of(json, "host_id");
	if (!sandbox->host_id)
		sandbox->host_id = g_strdup(record->id);
	sandbox->limits = (VialLimits){ .cpu = json_number_value(json_object_get(json, "cpu")),
		                        .memory_mb = int_of(json, "memory_mb"),
		                        .disk_mb = int_of(json, "disk_mb"),
		                        .process_limit = int_of(json, "process_limit") };
	sandbox->metadata = object_of(json, "metadata");
	sandbox->env = object_of(json, "env");
	sandbox->network = object_of(json, "network");
	sandbox->reason = text_of(json, "reason");
	sandbox->boot_mode = text_of(json, "boot_mode");
	sandbox->boot_ms = int_of(json, "boot_ms");
	sandbox->created_at_ms = record->created_at;
	sandbox->expires_at_ms = record->expires_at;
	sandbox->ttl_seconds = int_of(json, "ttl_seconds");
	sandbox->idle_seconds = int_of(json, "idle_seconds");
	sandbox->on_idle = (VialOnIdle)int_of(json, "on_idle");
	sandbox->persistent = json_is_true(json_object_get(json, "persistent"));
	sandbox->from_snapshot = text_of(json, "from_snapshot");
	sandbox->parent = text_of(json, "parent");
	sandbox->tree_id = text_of(json, "tree_id");
	sandbox->slot_name = text_of(json, "slot");
	if (!vial_state_parse(record->status, &sandbox->state))
		sandbox->state = VIAL_STATE_FAILED;
	return sandbox;
}
