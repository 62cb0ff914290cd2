/* SPDX-License-Identifier: Apache-2.0 */
/* Which engine this host can really run, and why; and the checks of `viald --doctor`. Blocking; at start. */
#pragma once

#include <jansson.h>

#include "engine/engine.h"
#include "util/config.h"

/* *out_reason is one sentence, to be freed. */
VialEngine *vial_engine_select(const VialConfig *config, const char *tag, char **out_reason, GError **error);

/* {"checks":[{"name","ok","detail","advice"?}],"engine":{"chosen","reason"}} */
json_t *vial_doctor(const VialConfig *config);

/* Eight hex digits that tell this data directory's kernel objects from another's. */
char *vial_installation_tag(const VialConfig *config);
