/* SPDX-License-Identifier: Apache-2.0 */
/* Projects, their quotas, and what they have used. Documents are as spec/openapi.yaml shows them. */
#pragma once

#include "operations/operation.h"
#include "service/project.h"

typedef struct {
	const char *name;
	const char *description; /* NULL: as it is */
	json_t *quotas;          /* an object; NULL: as they are */
	json_t *ceilings;        /* the same under another name: both are put together */
	int legal_hold;          /* TRUE, FALSE, or -1: as it is */
} VialProjectRequest;

/* New references; NULL with an error. */
json_t *vial_op_project_list(const VialCaller *caller, GError **error);
json_t *vial_op_project_get(const VialCaller *caller, const char *name, GError **error);
gboolean vial_op_project_create(const VialCaller *caller, const VialProjectRequest *request, VialDocumentDone done, gpointer data, GError **error);
gboolean vial_op_project_change(const VialCaller *caller, const char *name, const VialProjectRequest *request, VialDocumentDone done, gpointer data,
                                GError **error);
/* Without a document, when nothing is left of it. */
gboolean vial_op_project_delete(const VialCaller *caller, const char *name, VialDocumentDone done, gpointer data, GError **error);

/* {quotas, used} */
json_t *vial_op_quota_get(const VialCaller *caller, const char *project, GError **error);
/* All of them: what is not there is no limit. */
gboolean vial_op_quota_put(const VialCaller *caller, const char *project, json_t *quotas, VialDocumentDone done, gpointer data, GError **error);

/* `project` NULL: the caller's own; "*": all, for operators. Days are YYYY-MM-DD; group_by is a list of day, template, agent, key and project, with
 * commas. */
gboolean vial_op_usage_read(const VialCaller *caller, const char *project, const char *from, const char *to, const char *group_by,
                            VialDocumentDone done, gpointer data, GError **error);
