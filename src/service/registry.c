/* SPDX-License-Identifier: Apache-2.0 */
/* All sandboxes by id, and who may see which. */
#include <string.h>

#include "service/sandbox_private.h"

VialSandboxes *vial_sandboxes_new(VialApp *app)
{
	VialSandboxes *sandboxes = g_new0(VialSandboxes, 1);

	sandboxes->app = app;
	sandboxes->by_id = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)vial_sandbox_unref);
	return sandboxes;
}

void vial_sandboxes_free(VialSandboxes *sandboxes)
{
	if (!sandboxes)
		return;
	g_clear_handle_id(&sandboxes->tick, g_source_remove);
	g_hash_table_unref(sandboxes->by_id);
	g_free(sandboxes);
}

VialSandbox *vial_sandboxes_find(VialApp *app, const VialIdentity *identity, const char *id, GError **error)
{
	VialSandbox *sandbox = id ? g_hash_table_lookup(app->sandboxes->by_id, id) : NULL;

	if (sandbox && !sandbox->build && sandbox->state != VIAL_STATE_DELETED && strcmp(sandbox->project, identity->project) == 0)
		return sandbox;
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no sandbox %.*s", 40, id ? id : "");
	return NULL;
}

static int newest_first(gconstpointer a, gconstpointer b)
{
	const VialSandbox *left = *(VialSandbox *const *)a, *right = *(VialSandbox *const *)b;

	if (left->created_at_ms != right->created_at_ms)
		return left->created_at_ms > right->created_at_ms ? -1 : 1;
	return strcmp(left->id, right->id);
}

GPtrArray *vial_sandboxes_list(VialApp *app, const VialIdentity *identity)
{
	GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)vial_sandbox_unref);
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->sandboxes->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialSandbox *sandbox = value;

		if (!sandbox->build && sandbox->state != VIAL_STATE_DELETED && strcmp(sandbox->project, identity->project) == 0)
			g_ptr_array_add(list, vial_sandbox_ref(sandbox));
	}
	g_ptr_array_sort(list, newest_first);
	return list;
}

GPtrArray *vial_sandboxes_all(VialSandboxes *sandboxes)
{
	GPtrArray *all = g_ptr_array_new_with_free_func((GDestroyNotify)vial_sandbox_unref);
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, sandboxes->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		g_ptr_array_add(all, vial_sandbox_ref(value));
	return all;
}

guint vial_sandboxes_count(VialSandboxes *sandboxes)
{
	return g_hash_table_size(sandboxes->by_id);
}

GHashTable *vial_sandboxes_table(VialSandboxes *sandboxes)
{
	return sandboxes->by_id;
}
