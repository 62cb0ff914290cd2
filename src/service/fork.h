/* SPDX-License-Identifier: Apache-2.0 */
/* Forks: children of exactly one instant of a running sandbox, which goes on. */
#pragma once

#include "service/quota.h"
#include "service/sandbox.h"

#define VIAL_MAX_FORKS 32

/* `children` and `errors` run in parallel: one of the two is set for each child asked for. Borrowed. */
typedef void (*VialForkDone)(const char *tree_id, GPtrArray *children, GPtrArray *errors, const GError *error, gpointer data);
/*
 * The parent must be acquired. `metadata` (may be NULL) replaces the parent's in the children, which are the principal's, and live
 * `ttl_seconds` (checked), or, where that is below 0, as long as the parent was given and no longer than his may. With `trial_seconds` above 0 they
 * live that long only (and not longer than they otherwise would), until one is promoted. The promise (borrowed until `done`) is that there is room
 * for all of them.
 */
void vial_fork(VialSandbox *parent, guint n_children, json_t *metadata, gint64 ttl_seconds, gint64 trial_seconds, const VialIdentity *principal,
               VialPromise *promise, VialForkDone done, gpointer data);

/* Keeps the winner, whose trial is over, and deletes its siblings: the other children of the same tree. {winner, tree_id, deleted, failures} */
typedef void (*VialPromoteDone)(json_t *answer, gpointer data);
void vial_promote(VialSandbox *winner, const char *tree_id, gboolean cleanup_siblings, VialPromoteDone done, gpointer data);
