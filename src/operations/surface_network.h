/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a sandbox whose maker named none. Clients of other services expect theirs to be open, so each of their surfaces has a setting
 * (`e2b_network`, ...); Vial's own has none: what is not said is closed.
 */
#pragma once

#include "operations/operation.h"

/* A new document for vial_op_sandbox_create(), or NULL: as ever. What the caller may not have he does not get. */
json_t *vial_surface_network(const VialCaller *caller);
