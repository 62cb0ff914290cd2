/* SPDX-License-Identifier: Apache-2.0 */
/* filesystem.Filesystem/WatchDir, a stream of what happens, and the watchers of clients that cannot listen and ask instead. */
#include <string.h>

#include "operations/watchers.h"
#include "surfaces/e2b/changes.h"
#include "surfaces/e2b/data.h"
#include "util/json.h"

typedef struct {
	char *user, *path;
	VialFileRequest file;
	gboolean wants_entries;
} Wish;

static void wish_clear(Wish *wish)
{
	g_free(wish->user);
	g_free(wish->path);
}

static gboolean read_wish(const VialRequest *request, const json_t *body, Wish *out, GError **error)
{
	const char *path = NULL;
	gboolean network_mounts;

	*out = (Wish){ .user = vial_e2b_user(request), .file = { .only_folder = TRUE } };
	if (!vial_decode_text(body, "path", &path, error) || !vial_decode_bool(body, "recursive", &out->file.recursive, error) ||
	    !vial_decode_bool(body, "includeEntry", &out->wants_entries, error) ||
	    !vial_decode_bool(body, "allowNetworkMounts", &network_mounts, error)) /* there are none here */
		return FALSE;
	out->path = vial_e2b_path(out->user, path);
	out->file.path = out->path;
	out->file.user = out->user;
	return TRUE;
}

/* Listening */

typedef struct {
	VialConnect connect; /* first */
	Wish wish;
	json_t *waiting; /* what happened while entries are being asked for */
	gboolean is_filling;
	VialExchange **alive; /* the exchange, for a filling that comes back when it may have ended */
} Listening;

static void listening_free(gpointer data)
{
	Listening *listening = data;

	vial_connect_clear(&listening->connect);
	wish_clear(&listening->wish);
	json_decref(listening->waiting);
	if (listening->alive)
		*listening->alive = NULL;
	g_free(listening);
}

static gboolean tell(Listening *listening, json_t *events)
{
	gboolean is_full = FALSE;
	json_t *event;
	gsize i;

	json_array_foreach (events, i, event)
		is_full = vial_connect_send(&listening->connect, json_pack("{s:O}", "filesystem", event));
	return is_full;
}

static void fill(Listening *listening);

static void on_filled(json_t *events, gpointer data)
{
	VialExchange **alive = data, *exchange = *alive;
	Listening *listening = exchange ? exchange->state : NULL;

	g_free(alive);
	if (!listening)
		return;
	listening->alive = NULL;
	listening->is_filling = FALSE;
	if (!tell(listening, events))
		vial_operation_drained(exchange->operation);
	if (json_array_size(listening->waiting) > 0)
		fill(listening);
}

static void fill(Listening *listening)
{
	g_autoptr(json_t) events = listening->waiting;

	listening->waiting = json_array();
	listening->is_filling = TRUE;
	listening->alive = g_new(VialExchange *, 1);
	*listening->alive = listening->connect.exchange;
	vial_e2b_changes_fill(listening->connect.exchange->request, events, listening->wish.path, listening->wish.user, on_filled, listening->alive);
}

static void on_begun(VialOperation *operation, gpointer data)
{
	((VialExchange *)data)->operation = operation;
}

static gboolean on_change(const VialFileChange *change, gpointer data)
{
	VialExchange *exchange = data;
	Listening *listening = exchange->state;
	g_autoptr(json_t) events = json_array();

	if (strcmp(change->event, "watching") == 0)
		return vial_connect_send(&listening->connect, json_pack("{s:{}}", "start"));
	vial_e2b_changes_add(events, listening->wish.path, change->event, change->path, change->from);
	if (!listening->wish.wants_entries)
		return tell(listening, events);
	json_array_extend(listening->waiting, events);
	if (!listening->is_filling && json_array_size(listening->waiting) > 0)
		fill(listening);
	return listening->is_filling; /* the rest waits in the guest */
}

static void on_end(const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	vial_e2b_stream_end(exchange->state, error);
}

void vial_e2b_file_watch_dir(VialRequest *request)
{
	static const VialWatchSink sink = { .begun = on_begun, .change = on_change, .end = on_end };
	g_autoptr(json_t) body = NULL;
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	VialExchange *exchange;
	Listening *listening;
	VialCaller caller;
	gint64 limit_ms = 0;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_caller(request);
	listening = g_new0(Listening, 1);
	listening->waiting = json_array();
	exchange = vial_exchange_new(request, listening, listening_free);
	vial_connect_init(&listening->connect, exchange, "{\"keepalive\":{}}");
	body = vial_connect_request(request, &error);
	if (body && vial_connect_timeout_ms(request, &limit_ms, &error) && read_wish(request, body, &listening->wish, &error))
		operation = vial_op_file_watch(&caller, vial_surface_sandbox(request), &listening->wish.file, &sink, exchange, &error);
	if (operation)
		vial_connect_limit(&listening->connect, limit_ms);
	vial_e2b_exchange_begin(exchange, operation, &error);
}

/* Asking */

static void on_created(const char *id, const GError *error, gpointer data)
{
	VialRequest *request = data;

	vial_request_on_gone(request, NULL, NULL);
	if (error)
		vial_e2b_reply_error(request, error);
	else
		vial_request_reply_json(request, 200, json_pack("{s:s}", "watcherId", id));
	vial_request_unref(request);
}

static void on_gone(VialRequest *request, gpointer data)
{
	vial_op_watcher_forget(vial_surface_app(request), request);
	vial_request_unref(request);
}

void vial_e2b_watcher_create(VialRequest *request)
{
	g_autoptr(GError) error = NULL;
	VialCaller caller;
	Wish wish;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_question(request);
	vial_request_on_gone(request, on_gone, NULL);
	if (!read_wish(request, vial_request_json(request), &wish, &error) ||
	    !vial_op_watcher_create(&caller, vial_surface_sandbox(request), &wish.file, wish.wants_entries, on_created, request, &error)) {
		vial_request_on_gone(request, NULL, NULL);
		vial_e2b_begun(request, FALSE, &error);
	}
	wish_clear(&wish);
}

static void reply_events(json_t *events, gpointer data)
{
	VialRequest *request = data;

	vial_request_reply_json(request, 200, json_pack("{s:O}", "events", events));
	vial_request_unref(request);
}

void vial_e2b_watcher_events(VialRequest *request)
{
	g_autoptr(json_t) changes = NULL, events = json_array();
	g_autoptr(GError) error = NULL;
	const VialWatcherNote *note;
	const char *id = NULL;
	VialCaller caller;
	json_t *change;
	gsize i;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_question(request);
	if (vial_decode_text(vial_request_json(request), "watcherId", &id, &error))
		changes = vial_op_watcher_take(&caller, vial_surface_sandbox(request), id, &note, &error);
	if (!changes)
		return vial_e2b_begun(request, FALSE, &error);
	json_array_foreach (changes, i, change)
		vial_e2b_changes_add(events, note->path, json_string_value(json_object_get(change, "event")),
		                     json_string_value(json_object_get(change, "path")), json_string_value(json_object_get(change, "from")));
	if (note->wants_entries)
		vial_e2b_changes_fill(request, events, note->path, note->user, reply_events, request);
	else
		reply_events(events, request);
}

void vial_e2b_watcher_remove(VialRequest *request)
{
	g_autoptr(GError) error = NULL;
	const char *id = NULL;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_question(request);
	if (vial_decode_text(vial_request_json(request), "watcherId", &id, &error) &&
	    vial_op_watcher_remove(&caller, vial_surface_sandbox(request), id, &error))
		vial_e2b_reply_empty_message(NULL, NULL, request);
	else
		vial_e2b_begun(request, FALSE, &error);
}
