/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether there is room for one more, in the project and for the key: counted anew out of what there is whenever it is asked, in one thread, so that
 * no two can be told yes to the same place and nothing has to be right again after a crash. An error says which limit it is, how much of it is used
 * and by what (its detail: {limit: {name, scope, limit, used, asked, by: {…}}}).
 *
 * What sleeps takes a place and its disk, but no processors and no memory; so waking asks too.
 */
#pragma once

#include "service/sandbox.h"

VialQuotaBook *vial_quota_book_load(VialApp *app, GError **error);
void vial_quota_book_free(VialQuotaBook *book); /* accepts NULL */

/* For a sandbox that is in the registry already, with its limits; by whom it was made. Notes the creation, for the quota per hour. */
gboolean vial_quota_admit(VialSandbox *sandbox, const VialIdentity *principal, GError **error);
/* For one that sleeps. */
gboolean vial_quota_admit_wake(VialSandbox *sandbox, GError **error);

/* What is not in the registry yet: children of a fork under way. NULL with an error when there is no room for them. */
typedef struct VialPromise VialPromise;
VialPromise *vial_quota_promise(VialSandbox *parent, const VialIdentity *principal, guint count, GError **error);
/* One of them is in the registry now. */
void vial_promise_keep(VialPromise *promise, const char *sandbox_id);
void vial_promise_free(VialPromise *promise);                 /* accepts NULL */
guint vial_quota_promised(VialApp *app, const char *project); /* NULL: in all */

/* What all sandboxes that are awake, of all projects, may use together, and the children that are promised. */
gint64 vial_quota_awake_memory_mb(VialApp *app);

/* Code or a command that runs. */
/* Whose run it is: what is run with a sandbox's own token counts as by the key that made it. Borrowed; `principal` where there is no such key. */
const VialIdentity *vial_quota_runner(const VialIdentity *principal, const VialSandbox *sandbox);
gboolean vial_quota_begin_run(VialApp *app, const VialIdentity *principal, GError **error);
guint64 vial_quota_runs_total(VialApp *app, const char *project); /* since the start */
void vial_quota_end_run(VialApp *app, const char *project, const char *principal_id);

/* A snapshot of that size beside those there are; 0: is there any room at all? Less: would it be enough if so much went? */
gboolean vial_quota_admit_snapshot(VialApp *app, const VialIdentity *principal, const char *project, gint64 size_bytes, GError **error);

/* A custom template of that name (tag NULL: none) beside those there are, are being built and are being made out of sandboxes; one more tag of a name
 * counts as one, and one that leaves the one before it no tag counts as none. */
gboolean vial_quota_admit_template(VialApp *app, const VialIdentity *principal, const char *name, const char *tag, GError **error);

/* Ceilings: what may be asked for at all. FORBIDDEN, with the ceiling's name. */
gboolean vial_ceiling_template(VialApp *app, const VialIdentity *principal, const char *name, GError **error);
/* Whether it may do without an agent what makes sandboxes. */
gboolean vial_ceiling_agentless(const VialIdentity *principal, GError **error);
gboolean vial_ceiling_network(VialApp *app, const VialIdentity *principal, const char *mode, GError **error);
gboolean vial_ceiling_size(VialApp *app, const VialIdentity *principal, const VialLimits *limits, GError **error);
/* The longest life one may have, in seconds; 0: no limit. */
gint64 vial_ceiling_ttl(VialApp *app, const VialIdentity *principal);

/* What a project uses now: {sandboxes, vcpu, memory_mb, disk_mb, snapshot_bytes, templates, created_last_hour, concurrent_runs}. */
json_t *vial_quota_used_json(VialApp *app, const char *project);
/* Who has its sandboxes: {keys: {name: count}, templates: {name: count}}. */
json_t *vial_quota_by_json(VialApp *app, const char *project);
