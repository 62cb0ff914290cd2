/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: what sandboxes are made from. */
#pragma once

#include "operations/operation.h"
#include "service/template.h"

/* New references to documents; NULL with an error. */
json_t *vial_op_template_list(const VialCaller *caller, GError **error);
/* The sizes that have a name, and whether this host, and the caller's project, can have them. */
json_t *vial_op_tier_list(const VialCaller *caller, GError **error);
json_t *vial_op_template_get(const VialCaller *caller, const char *name, GError **error);
