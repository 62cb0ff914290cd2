/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Projects: whom everything belongs to. A project is known by its name, which is given once and for ever: records of what was done in it outlive it,
 * and must not become somebody else's. `default` is there from the start and cannot be deleted. Main thread only.
 */
#pragma once

#include "service/app.h"

#define VIAL_PROJECT_DESCRIPTION_MAX_BYTES 1024

typedef enum { VIAL_PROJECT_ACTIVE, VIAL_PROJECT_DELETING, VIAL_PROJECT_DELETED } VialProjectState;

typedef struct {
	char *name;
	char *description;
	VialProjectState state;
	VialQuotas *quotas;
	gboolean legal_hold; /* the bodies of its records are kept whatever their age */
	gint64 created_at_ms, updated_at_ms;
} VialProject;

VialProjects *vial_projects_load(VialApp *app, GError **error);
void vial_projects_free(VialProjects *projects);

/* One that is not deleted, nor about to be; NULL: none. Borrowed. */
VialProject *vial_projects_find(const VialProjects *projects, const char *name);
/* Those, by name; elements are borrowed. */
GPtrArray *vial_projects_list(const VialProjects *projects);
json_t *vial_project_json(const VialProject *project);

/* CONFLICT when the name is or was taken. `quotas` is taken over. `done` when it is on the disk. */
VialProject *vial_projects_create(VialApp *app, const char *name, const char *description, VialQuotas *quotas, gboolean legal_hold,
                                  VialStoreDone done, gpointer data, GError **error);
/* Each unless NULL, or -1; `quotas` is taken over. */
void vial_project_change(VialApp *app, VialProject *project, const char *description, VialQuotas *quotas, int legal_hold, VialStoreDone done,
                         gpointer data);
/*
 * Ends everything in it: its keys at once (and what they have open), its sandboxes and snapshots, those that are being made too. `done` when nothing
 * is left. A viald that dies over it goes on at the next start (vial_projects_resume).
 */
void vial_project_delete(VialApp *app, VialProject *project, VialStoreDone done, gpointer data);
void vial_projects_resume(VialApp *app);
