/* SPDX-License-Identifier: Apache-2.0 */
/* The sandboxes resource: create, list, show, delete, and their lifecycle settings. */
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "service/sandbox.h"
#include "util/json.h"

#define MAX_PAGE 1000
#define METADATA_PREFIX "metadata."

static void on_created(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(VialRequest) request = data;

	if (error)
		vial_request_reply_error(request, g_error_copy(error));
	else
		vial_request_reply_json(request, 201, vial_sandbox_json(sandbox));
}

void vial_api_sandbox_create(VialRequest *request)
{
	g_autoptr(GError) error = NULL;
	VialSandboxCreate create;

	if (!vial_sandbox_create_parse(vial_request_json(request), &create, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	vial_sandboxes_create(vial_request_app(request), vial_request_identity(request), &create, on_created, vial_request_ref(request));
}

typedef struct {
	GHashTable *metadata;
	VialState state;
	gboolean has_state;
} Filter;

static void read_metadata_filter(const char *name, const char *value, gpointer data)
{
	Filter *filter = data;

	if (g_str_has_prefix(name, METADATA_PREFIX) && value)
		g_hash_table_insert(filter->metadata, g_strdup(name + strlen(METADATA_PREFIX)), g_strdup(value));
}

static gboolean passes(const Filter *filter, const VialSandbox *sandbox)
{
	GHashTableIter iter;
	gpointer key, value;

	if (filter->has_state && sandbox->state != filter->state)
		return FALSE;
	g_hash_table_iter_init(&iter, filter->metadata);
	while (g_hash_table_iter_next(&iter, &key, &value))
		if (g_strcmp0(json_string_value(json_object_get(sandbox->metadata, key)), value) != 0)
			return FALSE;
	return TRUE;
}

/* A page starts behind the sandbox named by the cursor; one that has gone since starts at the front again. */
static json_t *page(GPtrArray *list, const Filter *filter, const char *cursor, guint64 limit, const char **out_next)
{
	json_t *items = json_array();
	guint start = 0;
	const VialSandbox *last = NULL;

	for (guint i = 0; cursor && i < list->len; i++)
		if (strcmp(((VialSandbox *)list->pdata[i])->id, cursor) == 0)
			start = i + 1;
	for (guint i = start; i < list->len; i++) {
		VialSandbox *sandbox = list->pdata[i];

		if (!passes(filter, sandbox))
			continue;
		if (json_array_size(items) == limit) {
			*out_next = last->id;
			break;
		}
		json_array_append_new(items, vial_sandbox_json(sandbox));
		last = sandbox;
	}
	return items;
}

void vial_api_sandbox_list(VialRequest *request)
{
	g_autoptr(GPtrArray) list = vial_sandboxes_list(vial_request_app(request), vial_request_identity(request));
	g_autoptr(GHashTable) metadata = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	Filter filter = { .metadata = metadata };
	const char *state = vial_request_query(request, "state"), *limit_text = vial_request_query(request, "limit");
	const char *cursor = vial_request_query(request, "cursor"), *next = NULL;
	guint64 limit = G_MAXUINT;
	json_t *items;

	if (state && !vial_state_parse(state, &filter.state))
		return vial_request_reply_fail(request, VIAL_ERROR_INVALID, "state \"%.32s\" is not one a sandbox can be in", state);
	filter.has_state = state != NULL;
	if (limit_text && !g_ascii_string_to_unsigned(limit_text, 10, 1, MAX_PAGE, &limit, NULL))
		return vial_request_reply_fail(request, VIAL_ERROR_INVALID, "limit must be a number from 1 to %d", MAX_PAGE);
	vial_request_each_query(request, read_metadata_filter, &filter);
	items = page(list, &filter, cursor, limit, &next);
	if (limit_text || cursor)
		items = json_pack("{s:o, s:s?}", "items", items, "next", next);
	vial_request_reply_json(request, 200, items);
}

void vial_api_sandbox_get(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);

	if (sandbox)
		vial_request_reply_json(request, 200, vial_sandbox_json(sandbox));
}

static void on_deleted(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(VialRequest) request = data;

	vial_request_reply_empty(request, 204);
}

void vial_api_sandbox_delete(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);

	if (sandbox)
		vial_sandbox_delete(sandbox, on_deleted, vial_request_ref(request));
}

void vial_api_lifecycle_get(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);

	if (sandbox)
		vial_request_reply_json(request, 200, vial_sandbox_lifecycle_json(sandbox));
}

void vial_api_lifecycle_patch(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);
	g_autoptr(GError) error = NULL;

	if (!sandbox)
		return;
	if (vial_sandbox_set_lifecycle(sandbox, vial_request_json(request), &error))
		vial_guest_store_and_reply(request, sandbox, vial_sandbox_lifecycle_json(sandbox));
	else
		vial_request_reply_error(request, g_steal_pointer(&error));
}
