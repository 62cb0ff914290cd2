/* SPDX-License-Identifier: Apache-2.0 */
/* Forks and snapshots. Theirs are templates with a tag; ours go by their id or name, with ":default" behind it. */
#include "operations/snapshots.h"

#include <string.h>

#include "operations/builds.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"

/* Forks */

static json_t *fork_json(VialRequest *request, const VialSandbox *child, const GError *error)
{
	if (child)
		return json_pack("{s:o}", "sandbox", vial_e2b_sandbox_json(request, child));
	return json_pack("{s:{s:i, s:s}}", "error", "code", (int)vial_error_http_status(error), "message", error->message);
}

static void on_forked(const char *tree_id, GPtrArray *children, GPtrArray *errors, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = error ? NULL : json_array();

	for (guint i = 0; document && i < children->len; i++)
		json_array_append_new(document, fork_json(data, children->pdata[i], errors->pdata[i]));
	vial_surface_reply_created(document, error, data);
}

void vial_e2b_fork(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	VialForkRequest fork = { .count = 1, .ttl_seconds = VIAL_TIMEOUT_DEFAULT_SECONDS };
	const json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_e2b_is_alive(request, &error) && vial_decode_int(body, "count", &fork.count, &error) &&
	                           vial_e2b_decode_ttl(body, "timeout", &fork.ttl_seconds, &error) &&
	                           vial_op_fork(&caller, vial_surface_sandbox(request), &fork, on_forked, request, &error),
	                   &error);
}

/* Snapshots */

static json_t *snapshot_json(const VialRequest *request, const VialSnapshot *snapshot)
{
	g_autofree char *full = vial_e2b_full_name(request, snapshot->name ? snapshot->name : snapshot->id);

	if (snapshot->name)
		return json_pack("{s:s, s:[s]}", "snapshotID", full, "names", full);
	return json_pack("{s:s, s:[]}", "snapshotID", strchr(full, '/') + 1, "names");
}

static void on_taken(VialSnapshot *snapshot, const GError *error, gpointer data)
{
	g_autoptr(json_t) document = snapshot ? snapshot_json(data, snapshot) : NULL;

	vial_surface_reply_created(document, error, data);
}

void vial_e2b_snapshot(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	const json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;
	const char *name = NULL;
	VialArena arena;

	vial_arena_init(&arena);
	vial_surface_begun(
		request,
		vial_e2b_is_alive(request, &error) && vial_e2b_refuse_without_memory(body, "memory", &error) &&
			vial_decode_text(body, "name", &name, &error) &&
			vial_op_snapshot_take(&caller, vial_surface_sandbox(request), vial_e2b_plain_name(&arena, name), on_taken, request, &error),
		&error);
	vial_arena_clear(&arena);
}

typedef struct {
	const char *name; /* NULL: any */
	const char *cursor;
	gint64 limit;
} Page;

/* Newest first; the cursor is the last one's id, and one that has gone since starts at the front again. */
static json_t *page_json(VialRequest *request, GPtrArray *all, const Page *page)
{
	json_t *items = json_array();
	const char *last = NULL;
	guint i = 0;

	for (guint k = 0; page->cursor && k < all->len; k++)
		if (strcmp(((VialSnapshot *)all->pdata[k])->id, page->cursor) == 0)
			i = k + 1;
	for (; i < all->len; i++) {
		const VialSnapshot *snapshot = all->pdata[i];

		if (page->name && g_strcmp0(snapshot->name, page->name) != 0 && strcmp(snapshot->id, page->name) != 0)
			continue;
		if ((gint64)json_array_size(items) == page->limit) {
			vial_request_set_header(request, "X-Next-Token", last);
			break;
		}
		json_array_append_new(items, snapshot_json(request, snapshot));
		last = snapshot->id;
	}
	return items;
}

void vial_e2b_snapshot_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	g_autoptr(GPtrArray) all = NULL;
	json_t *items = NULL;
	GError *error = NULL;
	VialArena arena;
	Page page;

	vial_arena_init(&arena);
	page = (Page){ vial_e2b_plain_name(&arena, vial_request_query(request, "name")), vial_request_query(request, "nextToken"),
		       VIAL_SANDBOXES_PAGE };
	if (vial_decode_query_int(request, "limit", &page.limit, &error) && vial_check_int("limit", page.limit, 1, VIAL_PAGE_MAX, &error))
		all = vial_op_snapshot_list(&caller, vial_request_query(request, "sandboxID"), &error);
	if (all)
		items = page_json(request, all, &page);
	vial_surface_reply_now(request, items, error);
	vial_arena_clear(&arena);
}

/* Whichever of the two it is. */
void vial_e2b_template_delete(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	const char *name;
	VialArena arena;

	vial_arena_init(&arena);
	name = vial_e2b_plain_name(&arena, vial_request_param(request, "template"));
	vial_surface_begun(request,
	                   vial_snapshots_find(caller.app, caller.principal, name, NULL)
	                           ? vial_op_snapshot_delete(&caller, name, vial_surface_reply_done, request, &error)
	                           : vial_op_template_delete(&caller, name, vial_surface_reply_done, request, &error),
	                   &error);
	vial_arena_clear(&arena);
}
