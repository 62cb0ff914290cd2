/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: sealed checkpoints that outlive their sandbox and from which any number of sandboxes can be made. */
#pragma once

#include "service/sandbox.h"

typedef struct {
	char *id;
	char *project;
	char *sandbox_id;
	char *template_name;
	char *name; /* may be NULL */
	gint64 size_bytes;
	gint64 created_at_ms;
	json_t *facts; /* as sealed in its manifest */
	guint users;   /* sandboxes that are being made from it */
} VialSnapshot;

VialSnapshots *vial_snapshots_load(VialApp *app, GError **error);
void vial_snapshots_free(VialSnapshots *snapshots);
/* By id or name; NULL with NOT_FOUND. */
VialSnapshot *vial_snapshots_find(VialApp *app, const VialIdentity *identity, const char *id_or_name, GError **error);
GPtrArray *vial_snapshots_list(VialApp *app, const VialIdentity *identity); /* borrowed elements, newest first */
VialSnapshot *vial_snapshots_by_id(VialApp *app, const char *id);           /* whosever; NULL: none */
/* All of a project; borrowed elements, in no order. And how many more are just being taken. */
GPtrArray *vial_snapshots_of(VialApp *app, const char *project);
guint vial_snapshots_being_taken(VialApp *app, const char *project);
/* Whether there is one, of any project or just being taken, of which `is` says so. */
gboolean vial_snapshots_any(VialApp *app, gboolean (*is)(const VialSnapshot *snapshot, gconstpointer data), gconstpointer data);
json_t *vial_snapshot_json(const VialSnapshot *snapshot);
char *vial_snapshot_dir(VialApp *app, const char *id);

typedef void (*VialSnapshotDone)(VialSnapshot *snapshot, const GError *error, gpointer data);
/* The sandbox must be acquired; it goes on running. `name` may be NULL. `principal` is whose limits hold, besides the project's. */
void vial_snapshot_take(VialSandbox *sandbox, const VialIdentity *principal, const char *name, VialSnapshotDone done, gpointer data);
/* Refused while a sandbox is being made from it; those that were made are not touched: they have loaded everything. */
void vial_snapshot_delete(VialApp *app, VialSnapshot *snapshot, VialStoreDone done, gpointer data);
