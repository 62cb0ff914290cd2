/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watchers: a watch of files whose changes are kept, for clients that ask from time to time instead of listening. Each belongs to its sandbox; one
 * that nobody has asked for VIAL_WATCHER_SILENCE_MS ends, since it keeps its sandbox in use.
 */
#pragma once

#include "operations/files.h"

typedef struct {
	char *path, *user;      /* what is watched, and as whom; user NULL: the sandbox's */
	gboolean wants_entries; /* the surface's own note */
} VialWatcherNote;

VialWatchers *vial_watchers_new(void);
/* Ends all of them (NULL: there are none): nothing may hold a sandbox when viald stops. */
void vial_watchers_end(VialWatchers *watchers);
void vial_watchers_free(VialWatchers *watchers); /* accepts NULL */

typedef void (*VialWatcherCreated)(const char *id, const GError *error, gpointer data);
/* `created` when it is armed. */
gboolean vial_op_watcher_create(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, gboolean wants_entries,
                                VialWatcherCreated created, gpointer data, GError **error);
/* Whoever asked has left before `created`: it is not called any more. */
void vial_op_watcher_forget(VialApp *app, gpointer data);
/* What changed since it was asked last: a list of {event, path, from?, is_dir}, a new reference. *out_note is borrowed. */
json_t *vial_op_watcher_take(const VialCaller *caller, const char *sandbox_id, const char *id, const VialWatcherNote **out_note, GError **error);
gboolean vial_op_watcher_remove(const VialCaller *caller, const char *sandbox_id, const char *id, GError **error);
