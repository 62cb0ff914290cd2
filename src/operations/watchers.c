/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/watchers.h"

#include <string.h>

#include "operations/bearer.h"
#include "operations/limits.h"
#include "service/app.h"
#include "util/id.h"
#include "util/json.h"

/* What one takes in memory besides its names. */
#define CHANGE_OVERHEAD_BYTES 64

struct VialWatchers {
	GHashTable *by_id; /* id -> Watcher, which it owns */
};

typedef struct {
	VialApp *app;
	VialWatchers *all;
	char *id, *sandbox_id;
	VialWatcherNote note;
	VialOperation *operation; /* NULL: it has ended */
	json_t *changes;
	gsize changes_bytes;
	guint silence;
	VialWatcherCreated created; /* NULL: it was told */
	gpointer data;
} Watcher;

static void watcher_free(gpointer data)
{
	Watcher *watcher = data;

	g_clear_handle_id(&watcher->silence, g_source_remove);
	vial_operation_cancel(watcher->operation);
	json_decref(watcher->changes);
	g_free(watcher->note.path);
	g_free(watcher->note.user);
	g_free(watcher->sandbox_id);
	g_free(watcher->id);
	g_free(watcher);
}

VialWatchers *vial_watchers_new(void)
{
	VialWatchers *watchers = g_new0(VialWatchers, 1);

	watchers->by_id = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, watcher_free);
	return watchers;
}

void vial_watchers_end(VialWatchers *watchers)
{
	if (watchers)
		g_hash_table_remove_all(watchers->by_id);
}

void vial_watchers_free(VialWatchers *watchers)
{
	if (!watchers)
		return;
	g_hash_table_unref(watchers->by_id);
	g_free(watchers);
}

/* Silence */

static gboolean on_silence(gpointer data)
{
	Watcher *watcher = data;

	watcher->silence = 0;
	g_hash_table_remove(watcher->all->by_id, watcher->id);
	return G_SOURCE_REMOVE;
}

static void called(Watcher *watcher)
{
	g_clear_handle_id(&watcher->silence, g_source_remove);
	watcher->silence = g_timeout_add(VIAL_WATCHER_SILENCE_MS, on_silence, watcher);
}

/* What it hears */

static void on_begun(VialOperation *operation, gpointer data)
{
	((Watcher *)data)->operation = operation;
}

static void tell_created(Watcher *watcher, const GError *error)
{
	VialWatcherCreated created = watcher->created;

	watcher->created = NULL;
	if (created)
		created(error ? NULL : watcher->id, error, watcher->data);
}

static gsize size_of(const json_t *change)
{
	return CHANGE_OVERHEAD_BYTES + json_string_length(json_object_get(change, "path")) + json_string_length(json_object_get(change, "from"));
}

/* Who asks too seldom has the latest. */
static void keep(Watcher *watcher, json_t *change)
{
	watcher->changes_bytes += size_of(change);
	json_array_append_new(watcher->changes, change);
	while (json_array_size(watcher->changes) > VIAL_WATCHER_CHANGES_MAX || watcher->changes_bytes > VIAL_WATCHER_CHANGES_BYTES) {
		watcher->changes_bytes -= size_of(json_array_get(watcher->changes, 0));
		json_array_remove(watcher->changes, 0);
	}
}

static gboolean on_change(const VialFileChange *change, gpointer data)
{
	Watcher *watcher = data;

	if (strcmp(change->event, "watching") == 0)
		tell_created(watcher, NULL);
	else
		keep(watcher, json_pack("{s:s, s:s, s:s*, s:b}", "event", change->event, "path", change->path, "from", change->from, "is_dir",
		                        change->is_dir));
	return FALSE;
}

/* The sandbox sleeps, or is gone. One that was not told of as created is nobody's, and neither is one without a sandbox. */
static void on_end(const GError *error, gpointer data)
{
	Watcher *watcher = data;
	gboolean is_new = watcher->created != NULL;

	watcher->operation = NULL;
	tell_created(watcher, error);
	if (is_new || !vial_bearer_find(watcher->app, watcher->sandbox_id))
		g_hash_table_remove(watcher->all->by_id, watcher->id);
}

/* Asking */

static guint count_of(const VialWatchers *watchers, const char *sandbox_id)
{
	GHashTableIter all;
	gpointer watcher;
	guint count = 0;

	g_hash_table_iter_init(&all, watchers->by_id);
	while (g_hash_table_iter_next(&all, NULL, &watcher))
		count += strcmp(((Watcher *)watcher)->sandbox_id, sandbox_id) == 0;
	return count;
}

gboolean vial_op_watcher_create(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, gboolean wants_entries,
                                VialWatcherCreated created, gpointer data, GError **error)
{
	static const VialWatchSink sink = { .begun = on_begun, .change = on_change, .end = on_end };
	VialWatchers *watchers = caller->app->watchers;
	Watcher *watcher;
	VialOperation *operation;
	VialSandbox *sandbox;

	/* Before it is said how many there are. */
	if (!vial_operation_admit(caller, VIAL_VERB_FILE_LIST, sandbox_id, 0, &sandbox, error))
		return FALSE;
	if (count_of(watchers, sandbox_id) >= VIAL_WATCHERS_MAX)
		return vial_fail(error, VIAL_ERROR_QUOTA, "a sandbox may have %d watchers; remove some", VIAL_WATCHERS_MAX);
	watcher = g_new0(Watcher, 1);
	*watcher = (Watcher){ .app = caller->app,
		              .all = watchers,
		              .id = vial_id_new(),
		              .sandbox_id = g_strdup(sandbox_id),
		              .note = { g_strdup(request->path), g_strdup(request->user), wants_entries },
		              .changes = json_array(),
		              .created = created,
		              .data = data };
	operation = vial_op_file_watch(caller, sandbox_id, request, &sink, watcher, error);
	if (!operation) {
		watcher_free(watcher);
		return FALSE;
	}
	watcher->operation = operation;
	g_hash_table_insert(watchers->by_id, watcher->id, watcher);
	called(watcher);
	return TRUE;
}

static gboolean waits_for(gpointer id, gpointer watcher, gpointer data)
{
	return ((Watcher *)watcher)->created && ((Watcher *)watcher)->data == data;
}

void vial_op_watcher_forget(VialApp *app, gpointer data)
{
	g_hash_table_foreach_remove(app->watchers->by_id, waits_for, data);
}

static Watcher *find(const VialCaller *caller, const char *sandbox_id, const char *id, GError **error)
{
	Watcher *watcher = id ? g_hash_table_lookup(caller->app->watchers->by_id, id) : NULL;

	if (!vial_operation_admit(caller, VIAL_VERB_FILE_LIST, sandbox_id, 0, &(VialSandbox *){ NULL }, error))
		return NULL;
	if (watcher && (watcher->created || strcmp(watcher->sandbox_id, sandbox_id) != 0))
		watcher = NULL;
	/* One that has ended is there until all that it heard was asked for. */
	if (watcher && !watcher->operation && json_array_size(watcher->changes) == 0) {
		g_hash_table_remove(caller->app->watchers->by_id, id);
		watcher = NULL;
	}
	if (watcher)
		return watcher;
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no watcher %.64s in this sandbox", id ? id : "without an id");
	return NULL;
}

json_t *vial_op_watcher_take(const VialCaller *caller, const char *sandbox_id, const char *id, const VialWatcherNote **out_note, GError **error)
{
	Watcher *watcher = find(caller, sandbox_id, id, error);
	json_t *changes;

	if (!watcher)
		return NULL;
	called(watcher);
	changes = watcher->changes;
	watcher->changes = json_array();
	watcher->changes_bytes = 0;
	*out_note = &watcher->note;
	return changes;
}

gboolean vial_op_watcher_remove(const VialCaller *caller, const char *sandbox_id, const char *id, GError **error)
{
	Watcher *watcher = find(caller, sandbox_id, id, error);

	return watcher && g_hash_table_remove(caller->app->watchers->by_id, watcher->id);
}
