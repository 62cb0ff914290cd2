/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/strangers.h"

#include "audit/audit.h"
#include "util/json.h"
#include "util/log.h"

#define WINDOW_SECONDS 60
/* Addresses at a time; what comes from more is counted together. */
#define MAX_ADDRESSES 256
#define OTHERS "others"

struct VialStrangers {
	VialApp *app;
	GHashTable *counts; /* address -> how many more came in this window */
	guint timer;
};

static void record(VialStrangers *strangers, const char *peer, const VialIdentity *known, const char *why, guint count)
{
	json_t *header = json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:s, s:s}", "action", "key.refuse", "outcome", "refused", "project",
	                           known ? known->project : VIAL_DEFAULT_PROJECT, "principal", "kind", known ? "key" : "nobody", "id",
	                           known ? known->id : "nobody", "name", known ? known->name : "", "peer", peer, "error_type",
	                           known ? "forbidden" : "unauthorized");
	g_autoptr(GError) error = NULL;

	if (count > 1)
		json_object_set_new(header, "count", json_integer(count));
	if (!vial_audit_add(strangers->app->audit, header, json_pack("{s:s}", "error_message", why), FALSE, &error))
		vial_log_warning("audit", "a refused key could not be recorded", "error", error->message);
}

static gboolean on_window(gpointer data)
{
	VialStrangers *strangers = data;
	GHashTableIter iter;
	gpointer peer, count;

	strangers->timer = 0;
	g_hash_table_iter_init(&iter, strangers->counts);
	while (g_hash_table_iter_next(&iter, &peer, &count))
		if (GPOINTER_TO_UINT(count) > 0)
			record(strangers, peer, NULL, "more of the same from this address within a minute", GPOINTER_TO_UINT(count));
	g_hash_table_remove_all(strangers->counts);
	return G_SOURCE_REMOVE;
}

void vial_strangers_note(VialStrangers *strangers, const char *peer, const VialIdentity *known, const char *why)
{
	const char *address = peer ? peer : "unix";
	gpointer count;

	if (!g_hash_table_contains(strangers->counts, address) && g_hash_table_size(strangers->counts) >= MAX_ADDRESSES)
		address = OTHERS;
	if (!g_hash_table_lookup_extended(strangers->counts, address, NULL, &count)) {
		g_hash_table_insert(strangers->counts, g_strdup(address), GUINT_TO_POINTER(0));
		record(strangers, address, known, why, 1);
	} else {
		g_hash_table_insert(strangers->counts, g_strdup(address), GUINT_TO_POINTER(GPOINTER_TO_UINT(count) + 1));
	}
	if (!strangers->timer)
		strangers->timer = g_timeout_add_seconds(WINDOW_SECONDS, on_window, strangers);
}

VialStrangers *vial_strangers_new(VialApp *app)
{
	VialStrangers *strangers = g_new0(VialStrangers, 1);

	strangers->app = app;
	strangers->counts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	return strangers;
}

void vial_strangers_free(VialStrangers *strangers)
{
	if (!strangers)
		return;
	if (strangers->timer) {
		g_source_remove(strangers->timer);
		on_window(strangers);
	}
	g_hash_table_unref(strangers->counts);
	g_free(strangers);
}
