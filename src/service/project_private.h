/* SPDX-License-Identifier: Apache-2.0 */
/* Between project.c and project_delete.c. */
#pragma once

#include "service/project.h"

struct VialProjects {
	GHashTable *by_name; /* VialProject, the deleted ones too */
};

void vial_project_store(VialApp *app, const VialProject *project, VialStoreDone done, gpointer data);
