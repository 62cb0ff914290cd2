/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Podflare client says on the paths that it shares with the native API, and how it is told from the rest: by a field of the body that means
 * nothing there (`code` without a command; `n`; one of the names of its create), or by a key of its form.
 */
#pragma once

#include "operations/sandboxes.h"
#include "surfaces/shared/surface.h"

gboolean vial_podflare_is_exec(const VialRequest *request);
gboolean vial_podflare_is_fork(const VialRequest *request);
gboolean vial_podflare_is_create(const VialRequest *request);
gboolean vial_podflare_is_pty_list(const VialRequest *request);
/* Whether any of these says so, or the key. */
gboolean vial_podflare_speaks(const VialRequest *request);

/* Its create. `out->network` is a new reference, in any case. */
gboolean vial_podflare_decode_create(const VialCaller *caller, const json_t *body, VialCreateRequest *out, GError **error);
/* Its "egress": a new policy, or NULL where nothing is said. */
gboolean vial_podflare_decode_egress(const json_t *body, json_t **out, GError **error);
/* A sandbox as it is shown; a new document. */
json_t *vial_podflare_sandbox(const VialSandbox *sandbox);
