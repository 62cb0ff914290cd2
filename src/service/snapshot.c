/* SPDX-License-Identifier: Apache-2.0 */
#include "service/snapshot_private.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#include "service/custom_templates.h"
#include "service/freeze.h"
#include "service/manifest.h"
#include "service/quota.h"
#include "service/sandbox_private.h"
#include "service/undo.h"
#include "util/fault.h"
#include "util/id.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/tree.h"
#include "util/worker.h"

#define TEMPORARY_SUFFIX ".tmp"
/* What a manifest calls it. */
#define KIND "snapshot"
#define KIND_UNDO "undo"

static void snapshot_free(gpointer data)
{
	VialSnapshot *snapshot = data;

	g_free(snapshot->id);
	g_free(snapshot->project);
	g_free(snapshot->sandbox_id);
	g_free(snapshot->template_name);
	g_free(snapshot->name);
	json_decref(snapshot->facts);
	g_free(snapshot);
}

char *vial_snapshot_dir(VialApp *app, const char *id)
{
	return g_build_filename(app->config->data_dir, "snapshots", id, NULL);
}

/* Folders the store does not know are remains of a snapshot that was interrupted or deleted half-way. */
static void collect_garbage(VialApp *app, VialSnapshots *snapshots)
{
	g_autofree char *folder = g_build_filename(app->config->data_dir, "snapshots", NULL);
	g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(folder, name, NULL);

		if (!g_hash_table_contains(snapshots->by_id, name))
			vial_tree_remove(path);
	}
}

/* Enough to make a sandbox of it. */
static gboolean has_facts(const json_t *facts)
{
	return json_is_string(json_object_get(facts, "rootfs")) && json_is_string(json_object_get(facts, "runtime_dir")) &&
	       json_is_object(json_object_get(facts, "env"));
}

/* The folder's manifest says the same as the record, and is sealed. Without either it is still listed, and refused where it is to be restored. */
static json_t *read_facts(VialApp *app, const VialSnapshotRecord *record)
{
	g_autoptr(json_t) facts = json_loads(record->document, 0, NULL);
	g_autofree char *dir = vial_snapshot_dir(app, record->id);
	g_autoptr(GError) error = NULL;
	gboolean needs_deep;

	if (has_facts(facts))
		return g_steal_pointer(&facts);
	g_clear_pointer(&facts, json_decref);
	if (vial_manifest_check(app->manifests, dir, &needs_deep, &facts, &error) && has_facts(facts))
		return g_steal_pointer(&facts);
	vial_log_error("snapshot", "neither its record nor its manifest can be read", "snapshot_id", record->id, "error",
	               error ? error->message : "incomplete");
	return json_pack("{s:s, s:s, s:{}}", "rootfs", "", "runtime_dir", "", "env");
}

VialSnapshots *vial_snapshots_load(VialApp *app, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_snapshots(app->store, error);
	gboolean knows_all = TRUE;
	VialSnapshots *snapshots;

	if (!records)
		return NULL;
	snapshots = g_new0(VialSnapshots, 1);
	snapshots->by_id = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, snapshot_free);
	for (guint i = 0; i < records->len; i++) {
		const VialSnapshotRecord *record = records->pdata[i];
		VialSnapshot *snapshot = g_new0(VialSnapshot, 1);

		snapshot->id = g_strdup(record->id);
		snapshot->project = g_strdup(record->project);
		snapshot->sandbox_id = g_strdup(record->sandbox_id);
		snapshot->template_name = g_strdup(record->template_name);
		snapshot->name = record->name && *record->name ? g_strdup(record->name) : NULL;
		snapshot->size_bytes = record->size_bytes;
		snapshot->created_at_ms = record->created_at;
		snapshot->facts = read_facts(app, record);
		snapshot->is_undo = g_strcmp0(json_string_value(json_object_get(snapshot->facts, "kind")), KIND_UNDO) == 0;
		snapshot->sequence = json_integer_value(json_object_get(snapshot->facts, "sequence"));
		knows_all = knows_all && vial_id_is_valid(record->id);
		g_hash_table_insert(snapshots->by_id, snapshot->id, snapshot);
	}
	snapshots->being_taken = g_ptr_array_new();
	snapshots->undo = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref);
	vial_undo_load(snapshots);
	/* With an id that is none, one of the folders is a snapshot's whose name we cannot read. */
	if (knows_all)
		collect_garbage(app, snapshots);
	return snapshots;
}

void vial_snapshots_free(VialSnapshots *snapshots)
{
	if (!snapshots)
		return;
	g_hash_table_unref(snapshots->undo);
	g_hash_table_unref(snapshots->by_id);
	g_ptr_array_unref(snapshots->being_taken);
	g_free(snapshots);
}

static int newest_first(gconstpointer a, gconstpointer b)
{
	const VialSnapshot *left = *(VialSnapshot *const *)a, *right = *(VialSnapshot *const *)b;

	if (left->created_at_ms != right->created_at_ms)
		return left->created_at_ms > right->created_at_ms ? -1 : 1;
	return strcmp(left->id, right->id);
}

GPtrArray *vial_snapshots_of(VialApp *app, const char *project)
{
	GPtrArray *list = g_ptr_array_new();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->snapshots->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (strcmp(((VialSnapshot *)value)->project, project) == 0)
			g_ptr_array_add(list, value);
	return list;
}

VialSnapshot *vial_snapshots_by_id(VialApp *app, const char *id)
{
	return g_hash_table_lookup(app->snapshots->by_id, id);
}

gboolean vial_snapshots_any(VialApp *app, gboolean (*is)(const VialSnapshot *snapshot, gconstpointer data), gconstpointer data)
{
	GPtrArray *being_taken = app->snapshots->being_taken;
	GHashTableIter iter;
	gpointer value;

	for (guint i = 0; i < being_taken->len; i++)
		if (is(being_taken->pdata[i], data))
			return TRUE;
	g_hash_table_iter_init(&iter, app->snapshots->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (is(value, data))
			return TRUE;
	return FALSE;
}

guint vial_snapshots_being_taken(VialApp *app, const char *project)
{
	guint count = 0;

	for (guint i = 0; i < app->snapshots->being_taken->len; i++)
		count += strcmp(((VialSnapshot *)app->snapshots->being_taken->pdata[i])->project, project) == 0;
	return count;
}

GPtrArray *vial_snapshots_list(VialApp *app, const VialIdentity *identity)
{
	GPtrArray *list = vial_snapshots_of(app, identity->project);

	for (guint i = list->len; i > 0; i--)
		if (((VialSnapshot *)list->pdata[i - 1])->is_undo)
			g_ptr_array_remove_index_fast(list, i - 1);
	g_ptr_array_sort(list, newest_first);
	return list;
}

VialSnapshot *vial_snapshots_find(VialApp *app, const VialIdentity *identity, const char *id_or_name, GError **error)
{
	g_autoptr(GPtrArray) list = vial_snapshots_list(app, identity);

	for (guint i = 0; i < list->len; i++) {
		VialSnapshot *snapshot = list->pdata[i];

		if (strcmp(snapshot->id, id_or_name) == 0 || g_strcmp0(snapshot->name, id_or_name) == 0)
			return snapshot;
	}
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no snapshot %.64s", id_or_name);
	return NULL;
}

VialLimits vial_snapshot_limits(const VialSnapshot *snapshot)
{
	return (VialLimits){ .cpu = json_number_value(json_object_get(snapshot->facts, "cpu")),
		             .memory_mb = json_integer_value(json_object_get(snapshot->facts, "memory_mb")),
		             .disk_mb = json_integer_value(json_object_get(snapshot->facts, "disk_mb")),
		             .process_limit = json_integer_value(json_object_get(snapshot->facts, "process_limit")) };
}

char **vial_snapshot_layers(const VialSnapshot *snapshot)
{
	json_t *list = json_object_get(snapshot->facts, "layers"), *item;
	g_autoptr(GStrvBuilder) layers = g_strv_builder_new();
	size_t index;

	json_array_foreach (list, index, item)
		g_strv_builder_add(layers, json_string_value(item) ? json_string_value(item) : "");
	return list ? g_strv_builder_end(layers) : NULL;
}

json_t *vial_snapshot_json(const VialSnapshot *snapshot)
{
	char created[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(created, snapshot->created_at_ms);
	return json_pack("{s:s, s:s, s:s, s:s*, s:I, s:s, s:O*, s:O*}", "id", snapshot->id, "sandbox_id", snapshot->sandbox_id, "template",
	                 snapshot->template_name, "name", snapshot->name, "size_bytes", (json_int_t)snapshot->size_bytes, "created_at", created,
	                 "memory_mb", json_object_get(snapshot->facts, "memory_mb"), "cpu", json_object_get(snapshot->facts, "cpu"));
}

void vial_snapshot_store(VialApp *app, const VialSnapshot *snapshot, VialStoreDone done, gpointer data)
{
	g_autofree char *document = vial_json_dump(snapshot->facts);
	VialSnapshotRecord record = {
		.id = snapshot->id,
		.project = snapshot->project,
		.sandbox_id = snapshot->sandbox_id,
		.template_name = snapshot->template_name,
		.name = snapshot->name ? snapshot->name : (char *)"",
		.document = document,
		.size_bytes = snapshot->size_bytes,
		.created_at = snapshot->created_at_ms,
	};

	vial_store_put_snapshot(app->store, &record, done, data);
}

/* Taking one */

typedef struct {
	VialSandbox *sandbox;
	VialIdentity *principal;
	VialSnapshot *snapshot;
	char *temporary;
	char *dir;
	GError *error;
	gboolean is_forgotten; /* freed already */
	VialSnapshotDone done;
	gpointer data;
} Taking;

static void taking_end(Taking *taking, const GError *error)
{
	g_ptr_array_remove(taking->sandbox->app->snapshots->being_taken, taking->snapshot);
	taking->done(error ? NULL : taking->snapshot, error, taking->data);
	if (error && !taking->is_forgotten)
		snapshot_free(taking->snapshot);
	vial_sandbox_unref(taking->sandbox);
	vial_identity_unref(taking->principal);
	g_clear_error(&taking->error);
	g_free(taking->temporary);
	g_free(taking->dir);
	g_free(taking);
}

static void on_stored(const GError *error, gpointer data)
{
	Taking *taking = data;
	VialSandbox *sandbox = vial_sandbox_ref(taking->sandbox);
	VialApp *app = sandbox->app;
	gboolean is_undo = taking->snapshot->is_undo;

	taking->snapshot->users--;
	if (error) {
		vial_tree_remove_later(taking->dir);
		if (is_undo)
			vial_undo_removed(app->snapshots, taking->snapshot);
		g_hash_table_steal(app->snapshots->by_id, taking->snapshot->id);
	} else if (is_undo && !vial_undo_settle(sandbox, &taking->error)) {
		taking->is_forgotten = TRUE;
		error = taking->error;
	}
	taking_end(taking, error);
	/* Only now: of two that were sealed in the wrong order, this one may be the one to go. */
	if (is_undo)
		vial_undo_trim(sandbox);
	vial_sandbox_unref(sandbox);
}

static void seal_work(gpointer data)
{
	Taking *taking = data;
	VialManifests *manifests = taking->sandbox->app->manifests;

	if (!vial_manifest_seal(manifests, taking->temporary, taking->snapshot->facts, &taking->error))
		return;
	taking->snapshot->size_bytes = vial_tree_size(taking->temporary);
	if (vial_fault("snapshot.rename") || g_rename(taking->temporary, taking->dir) < 0)
		vial_fail(&taking->error, VIAL_ERROR_INTERNAL, "the snapshot cannot be put in place: %s", g_strerror(errno));
	else
		vial_manifest_moved(manifests, taking->temporary, taking->dir);
}

/* How large it is nobody knew before; and the project, or what is to be undone, may have gone meanwhile. */
static gboolean may_stay(Taking *taking)
{
	VialSandbox *sandbox = taking->sandbox;
	gint64 size_bytes = taking->snapshot->size_bytes;

	if (!taking->snapshot->is_undo)
		return vial_quota_admit_snapshot(sandbox->app, taking->principal, taking->snapshot->project, size_bytes, &taking->error);
	if (sandbox->state != VIAL_STATE_DELETED)
		return vial_undo_make_room(sandbox, taking->principal, size_bytes, &taking->error);
	taking->error = vial_sandbox_refusal(sandbox, "used");
	return FALSE;
}

static void seal_done(gpointer data)
{
	Taking *taking = data;

	if (taking->error) {
		vial_tree_remove_later(taking->temporary);
		return taking_end(taking, taking->error);
	}
	if (!may_stay(taking)) {
		vial_tree_remove_later(taking->dir);
		return taking_end(taking, taking->error);
	}
	vial_snapshot_store(taking->sandbox->app, taking->snapshot, on_stored, taking);
	/* Counted from now on: another one that is sealed before this is on the disk finds it there. Nobody deletes it before that. */
	taking->snapshot->users++;
	g_hash_table_insert(taking->sandbox->app->snapshots->by_id, taking->snapshot->id, taking->snapshot);
	if (taking->snapshot->is_undo)
		vial_undo_added(taking->sandbox->app->snapshots, taking->snapshot);
}

/* An undo point says its place among the others: the wall clock may be set. */
static void set_facts(VialSnapshot *snapshot, const VialSandbox *sandbox)
{
	snapshot->facts = vial_sandbox_facts(sandbox, snapshot->is_undo ? KIND_UNDO : KIND);
	if (!snapshot->is_undo)
		return;
	snapshot->sequence = ++sandbox->app->snapshots->last_sequence;
	json_object_set_new(snapshot->facts, "sequence", json_integer(snapshot->sequence));
}

static void on_frozen(const GError *error, gpointer data)
{
	Taking *taking = data;

	if (error) {
		vial_tree_remove_later(taking->temporary);
		return taking_end(taking, error);
	}
	/* As it is now: while this waited its turn the sandbox may have got another machine. */
	set_facts(taking->snapshot, taking->sandbox);
	vial_worker_run(seal_work, seal_done, taking);
}

static gboolean has_name(const VialSnapshot *snapshot, const char *project, const char *name)
{
	return name && strcmp(snapshot->project, project) == 0 && g_strcmp0(snapshot->name, name) == 0;
}

gint64 vial_snapshots_size(VialApp *app)
{
	gint64 total = 0;
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->snapshots->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		total += ((VialSnapshot *)value)->size_bytes;
	return total;
}

static gboolean may_take(VialSandbox *sandbox, const VialIdentity *principal, const char *name, gboolean is_undo, GError **error)
{
	const VialSnapshots *snapshots = sandbox->app->snapshots;
	gint64 quota_mb = sandbox->app->config->snapshot_quota_mb, total = vial_snapshots_size(sandbox->app);
	gboolean is_taken = FALSE;
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, snapshots->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		is_taken |= has_name(value, sandbox->project, name);
	for (guint i = 0; i < snapshots->being_taken->len; i++)
		is_taken |= has_name(snapshots->being_taken->pdata[i], sandbox->project, name);
	if (is_taken)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "there already is a snapshot named \"%s\"; delete it or choose another name", name);
	if (total >= quota_mb * 1024 * 1024 && !(is_undo && vial_undo_count(sandbox) > 0))
		return vial_fail(error, VIAL_ERROR_QUOTA, "snapshots take %" G_GINT64_FORMAT " MB, all that snapshot_quota_mb allows; delete some",
		                 total / 1024 / 1024);
	return is_undo ? vial_undo_may_keep(sandbox, principal, error)
	               : vial_quota_admit_snapshot(sandbox->app, principal, sandbox->project, 0, error);
}

void vial_snapshot_take(VialSandbox *sandbox, const VialIdentity *principal, const char *name, VialSnapshotDone done, gpointer data)
{
	vial_snapshot_begin(sandbox, principal, name, FALSE, done, data);
}

void vial_snapshot_begin(VialSandbox *sandbox, const VialIdentity *principal, const char *name, gboolean is_undo, VialSnapshotDone done,
                         gpointer data)
{
	g_autofree char *parent = g_build_filename(sandbox->app->config->data_dir, "snapshots", NULL);
	g_autoptr(GError) error = NULL;
	VialSnapshot *snapshot;
	Taking *taking;

	if (!may_take(sandbox, principal, name, is_undo, &error)) {
		done(NULL, error, data);
		return;
	}
	g_mkdir_with_parents(parent, 0700);
	snapshot = g_new0(VialSnapshot, 1);
	snapshot->id = vial_id_new();
	snapshot->project = g_strdup(sandbox->project);
	snapshot->sandbox_id = g_strdup(sandbox->id);
	snapshot->template_name = g_strdup(sandbox->template_name);
	snapshot->name = g_strdup(name);
	snapshot->created_at_ms = vial_time_now_ms();
	snapshot->is_undo = is_undo;
	taking = g_new0(Taking, 1);
	taking->sandbox = vial_sandbox_ref(sandbox);
	taking->principal = vial_identity_ref((VialIdentity *)principal);
	taking->snapshot = snapshot;
	taking->dir = vial_snapshot_dir(sandbox->app, snapshot->id);
	taking->temporary = g_strconcat(taking->dir, TEMPORARY_SUFFIX, NULL);
	taking->done = done;
	taking->data = data;
	g_ptr_array_add(sandbox->app->snapshots->being_taken, snapshot);
	vial_freeze(sandbox, taking->temporary, on_frozen, taking);
}

void vial_snapshot_delete(VialApp *app, VialSnapshot *snapshot, VialStoreDone done, gpointer data)
{
	const VialCustomTemplate *custom;
	g_autoptr(GError) error = NULL;

	custom = vial_custom_templates_with_snapshot(app, snapshot->id);
	if (custom) {
		error = g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "the template \"%s\" is this snapshot; delete that", custom->name);
		done(error, data);
		return;
	}
	if (snapshot->users > 0) {
		error = g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "a sandbox is just being made from this snapshot; try again in a moment");
		done(error, data);
		return;
	}
	/* Out of the record first: a folder without a record is garbage, a record without a folder would be a lie. */
	vial_store_delete_snapshot(app->store, snapshot->id, done, data);
	vial_snapshot_forget(app, snapshot);
}

void vial_snapshot_forget(VialApp *app, VialSnapshot *snapshot)
{
	g_autofree char *dir = vial_snapshot_dir(app, snapshot->id);

	vial_tree_remove_later(dir);
	if (snapshot->is_undo)
		vial_undo_removed(app->snapshots, snapshot);
	g_hash_table_remove(app->snapshots->by_id, snapshot->id);
}
