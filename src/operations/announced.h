/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds that are announced before they are asked for: some clients name a template first, and are given its build's id, and say in a second call how
 * it is made. Until then there is nothing but that in memory: a bounded number of each project, for an hour.
 */
#pragma once

#include "operations/builds.h"

typedef struct VialAnnounced VialAnnounced;

VialAnnounced *vial_announced_new(void);
void vial_announced_free(VialAnnounced *announced); /* accepts NULL */

/* Of the request: name, tags and sizes. The id, which is borrowed and holds until the next call; NULL with an error. */
const char *vial_op_build_announce(const VialCaller *caller, const VialTemplateBuildRequest *request, GError **error);
/* Whether this build of this template was announced, and not begun. FALSE with an error: that is none of the caller's business. */
gboolean vial_op_build_is_announced(const VialCaller *caller, const char *id, const char *name, GError **error);
/* The rest of the request: how it is made. NOT_FOUND when nothing like it was announced; it still is after a refusal. */
gboolean vial_op_build_begin(const VialCaller *caller, const char *id, const char *name, const VialTemplateBuildRequest *rest, VialDocumentDone done,
                             gpointer data, GError **error);
