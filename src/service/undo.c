/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of a sandbox's undo points: which there are, and which give way to a new one. */
#include "service/undo.h"

#include "service/quota.h"
#include "service/sandbox_private.h"
#include "service/snapshot_private.h"
#include "util/log.h"

/* What the caller can do. */
static const char *const hint = "run it without undo, or delete what the sandbox does not need";

static GPtrArray *ring_of(const VialSnapshots *snapshots, const char *sandbox_id)
{
	return g_hash_table_lookup(snapshots->undo, sandbox_id);
}

static int oldest_first(gconstpointer a, gconstpointer b)
{
	const VialSnapshot *left = *(VialSnapshot *const *)a, *right = *(VialSnapshot *const *)b;

	return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

void vial_undo_added(VialSnapshots *snapshots, VialSnapshot *snapshot)
{
	GPtrArray *ring = ring_of(snapshots, snapshot->sandbox_id);

	if (!ring) {
		ring = g_ptr_array_new();
		g_hash_table_insert(snapshots->undo, g_strdup(snapshot->sandbox_id), ring);
	}
	g_ptr_array_add(ring, snapshot);
	/* The one that was taken last may be sealed first. */
	g_ptr_array_sort(ring, oldest_first);
	snapshots->last_sequence = MAX(snapshots->last_sequence, snapshot->sequence);
}

void vial_undo_removed(VialSnapshots *snapshots, VialSnapshot *snapshot)
{
	GPtrArray *ring = ring_of(snapshots, snapshot->sandbox_id);

	if (ring && g_ptr_array_remove(ring, snapshot) && ring->len == 0)
		g_hash_table_remove(snapshots->undo, snapshot->sandbox_id);
}

void vial_undo_load(VialSnapshots *snapshots)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, snapshots->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (((VialSnapshot *)value)->is_undo)
			vial_undo_added(snapshots, value);
}

guint vial_undo_count(const VialSandbox *sandbox)
{
	const GPtrArray *ring = ring_of(sandbox->app->snapshots, sandbox->id);

	return ring ? ring->len : 0;
}

VialSnapshot *vial_undo_last(const VialSandbox *sandbox)
{
	const GPtrArray *ring = ring_of(sandbox->app->snapshots, sandbox->id);

	return ring ? ring->pdata[ring->len - 1] : NULL;
}

static void on_dropped(const GError *error, gpointer data)
{
	if (error)
		vial_log_warning("undo", "an undo point is still recorded", "error", error->message);
}

void vial_undo_drop(VialApp *app, VialSnapshot *snapshot)
{
	vial_snapshot_delete(app, snapshot, on_dropped, NULL);
}

/* The oldest of the first `count` that nobody goes back to right now, and that is on the disk; FALSE if there is none. */
static gboolean drop_oldest(VialSandbox *sandbox, guint count)
{
	const GPtrArray *ring = ring_of(sandbox->app->snapshots, sandbox->id);

	for (guint i = 0; ring && i < MIN(ring->len, count); i++)
		if (((VialSnapshot *)ring->pdata[i])->users == 0) {
			vial_undo_drop(sandbox->app, ring->pdata[i]);
			return TRUE;
		}
	return FALSE;
}

void vial_undo_drop_all(VialApp *app, const char *sandbox_id)
{
	const GPtrArray *ring = ring_of(app->snapshots, sandbox_id);
	g_autoptr(GPtrArray) all = ring ? g_ptr_array_copy((GPtrArray *)ring, NULL, NULL) : NULL;

	for (guint i = 0; all && i < all->len; i++)
		vial_undo_drop(app, all->pdata[i]);
}

void vial_undo_drop_strays(VialApp *app)
{
	g_autoptr(GList) ids = g_hash_table_get_keys(app->snapshots->undo);

	for (GList *id = ids; id; id = id->next)
		if (!g_hash_table_contains(app->sandboxes->by_id, id->data)) {
			g_autofree char *copy = g_strdup(id->data); /* the ring goes with its last */

			vial_undo_drop_all(app, copy);
		}
}

static gint64 size_of(const GPtrArray *ring)
{
	gint64 total = 0;

	for (guint i = 0; ring && i < ring->len; i++)
		total += ((VialSnapshot *)ring->pdata[i])->size_bytes;
	return total;
}

/* What drop_oldest() could give, all in all. */
static gint64 droppable_bytes(const GPtrArray *ring)
{
	gint64 total = 0;

	for (guint i = 0; ring && i < ring->len; i++)
		if (((VialSnapshot *)ring->pdata[i])->users == 0)
			total += ((VialSnapshot *)ring->pdata[i])->size_bytes;
	return total;
}

static gint64 quota_bytes(const VialSandbox *sandbox)
{
	return sandbox->app->config->undo_quota_mb * 1024 * 1024;
}

/* So much more: this installation's quota, and the project's. */
static gboolean has_room(VialSandbox *sandbox, const VialIdentity *principal, gint64 size_bytes, GError **error)
{
	gint64 total = vial_snapshots_size(sandbox->app), quota_mb = sandbox->app->config->snapshot_quota_mb;

	if (total + size_bytes > quota_mb * 1024 * 1024)
		return vial_fail(error, VIAL_ERROR_QUOTA,
		                 "snapshots take %" G_GINT64_FORMAT " of the %" G_GINT64_FORMAT
		                 " MB that snapshot_quota_mb allows, so there is no room for the state before it, of %" G_GINT64_FORMAT " MB; %s",
		                 total / 1024 / 1024, quota_mb, size_bytes / 1024 / 1024, hint);
	return vial_quota_admit_snapshot(sandbox->app, principal, sandbox->project, size_bytes, error);
}

gboolean vial_undo_may_keep(VialSandbox *sandbox, const VialIdentity *principal, GError **error)
{
	if (sandbox->app->config->undo_points == 0)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "no states are kept here (undo_points is 0); run it without undo");
	/* Where there are others of its own, they give way. */
	return vial_undo_count(sandbox) > 0 || vial_quota_admit_snapshot(sandbox->app, principal, sandbox->project, 0, error);
}

gboolean vial_undo_make_room(VialSandbox *sandbox, const VialIdentity *principal, gint64 size_bytes, GError **error)
{
	gint64 extra_bytes = size_bytes - droppable_bytes(ring_of(sandbox->app->snapshots, sandbox->id));
	g_autoptr(GError) refusal = NULL;

	if (size_bytes > quota_bytes(sandbox))
		return vial_fail(error, VIAL_ERROR_QUOTA,
		                 "the state before it takes %" G_GINT64_FORMAT " MB, and undo_quota_mb allows %" G_GINT64_FORMAT "; %s",
		                 size_bytes / 1024 / 1024, (gint64)sandbox->app->config->undo_quota_mb, hint);
	if (has_room(sandbox, principal, size_bytes, &refusal))
		return TRUE;
	/* Only if that helps: whoever is refused keeps what he has. */
	if (has_room(sandbox, principal, extra_bytes, NULL))
		while (drop_oldest(sandbox, G_MAXUINT))
			if (has_room(sandbox, principal, size_bytes, NULL))
				return TRUE;
	g_propagate_error(error, g_steal_pointer(&refusal));
	return FALSE;
}

/* The newest stays, whatever it takes: a run relies on it, and those before it may be held by who goes back to them. */
void vial_undo_trim(VialSandbox *sandbox)
{
	const VialSnapshots *snapshots = sandbox->app->snapshots;

	while (vial_undo_count(sandbox) > 1 &&
	       (vial_undo_count(sandbox) > sandbox->app->config->undo_points || size_of(ring_of(snapshots, sandbox->id)) > quota_bytes(sandbox)))
		if (!drop_oldest(sandbox, vial_undo_count(sandbox) - 1))
			return;
}

gboolean vial_undo_settle(VialSandbox *sandbox, GError **error)
{
	if (sandbox->state != VIAL_STATE_DELETED)
		return TRUE;
	vial_undo_drop_all(sandbox->app, sandbox->id);
	g_propagate_error(error, vial_sandbox_refusal(sandbox, "used"));
	return FALSE;
}

void vial_undo_keep(VialSandbox *sandbox, const VialIdentity *principal, VialSnapshotDone done, gpointer data)
{
	vial_snapshot_begin(sandbox, principal, NULL, TRUE, done, data);
}
