/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B's control plane: the handlers of control_routes.c, and what they share. SURFACES: the SDKs decide by the exact success code, by `code` and
 * `message` of an error, and require each field that their generated models require.
 */
#pragma once

#include "http/request.h"
#include "operations/builds.h"
#include "surfaces/shared/surface.h"
#include "util/arena.h"

json_t *vial_e2b_error_body(const VialRequest *request, unsigned status, const GError *error);

/* Sandboxes as this dialect shows them, new references. */
json_t *vial_e2b_sandbox_json(VialRequest *request, const VialSandbox *sandbox);
json_t *vial_e2b_detail_json(VialRequest *request, const VialSandbox *sandbox);
json_t *vial_e2b_listed_json(const VialSandbox *sandbox);
/* What they call paused, also while it is on its way there. */
gboolean vial_e2b_is_asleep(const VialSandbox *sandbox);

/*
 * A template's or snapshot's name without what this dialect puts around it: "project/name:default" is "name". Borrowed from `arena`; NULL stays NULL.
 */
const char *vial_e2b_plain_name(VialArena *arena, const char *name);
/* What their answers give a name as. */
char *vial_e2b_full_name(const VialRequest *request, const char *name);

/* A policy of ours out of what a client says of the network; *out_policy is a new reference, or NULL: it says nothing. */
gboolean vial_e2b_network_decode(const VialCaller *caller, json_t *network, const json_t *allow_internet_access, json_t **out_policy, GError **error);

/* One of ours as they show it: a new reference. */
json_t *vial_e2b_network_json(const json_t *policy);

/* A sandbox as this dialect knows it: one that has failed is no more. Borrowed; NULL with an error. */
VialSandbox *vial_e2b_find(const VialCaller *caller, const char *sandbox_id, GError **error);
/* The same without a look at who asks, which the operation is for: FALSE with an error for one that has failed. */
gboolean vial_e2b_is_alive(const VialRequest *request, GError **error);
/* A time to live: 0, which would be none at all elsewhere, is one that is over. */
gboolean vial_e2b_decode_ttl(const json_t *body, const char *field, gint64 *ttl_seconds, GError **error);
/* Where theirs can keep the files alone. */
gboolean vial_e2b_refuse_without_memory(const json_t *body, const char *field, GError **error);

/* How a template is made: what *out borrows is the body's, the arena's, and its steps, which are new. */
gboolean vial_e2b_build_decode(VialArena *arena, const VialCaller *caller, const json_t *body, VialTemplateBuildRequest *out, GError **error);

/* control_create.c */
void vial_e2b_create(VialRequest *request);
/* control_sandboxes.c */
void vial_e2b_get(VialRequest *request);
void vial_e2b_list(VialRequest *request);
void vial_e2b_list_running(VialRequest *request);
void vial_e2b_kill(VialRequest *request);
/* control_life.c */
void vial_e2b_timeout(VialRequest *request);
void vial_e2b_refresh(VialRequest *request);
void vial_e2b_pause(VialRequest *request);
void vial_e2b_connect(VialRequest *request);
void vial_e2b_resume(VialRequest *request);
/* control_snapshots.c */
void vial_e2b_fork(VialRequest *request);
void vial_e2b_snapshot(VialRequest *request);
void vial_e2b_snapshot_list(VialRequest *request);
void vial_e2b_template_delete(VialRequest *request);
/* control_network.c */
void vial_e2b_network_put(VialRequest *request);
/* control_metrics.c */
void vial_e2b_metrics(VialRequest *request);
/* control_logs.c */
void vial_e2b_logs(VialRequest *request);
void vial_e2b_logs_v2(VialRequest *request);
/* control_templates.c */
void vial_e2b_template_announce(VialRequest *request);
void vial_e2b_template_build(VialRequest *request);
void vial_e2b_template_status(VialRequest *request);
void vial_e2b_template_alias(VialRequest *request);
/* control_files.c */
void vial_e2b_template_files(VialRequest *request);
void vial_e2b_template_files_put(VialRequest *request);
/* control_tags.c */
void vial_e2b_tag_list(VialRequest *request);
void vial_e2b_tag_assign(VialRequest *request);
void vial_e2b_tag_remove(VialRequest *request);
/* control_refused.c */
void vial_e2b_no_volumes(VialRequest *request);
void vial_e2b_no_secrets(VialRequest *request);
