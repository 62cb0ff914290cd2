/* SPDX-License-Identifier: Apache-2.0 */
/* Which engine this host can really run, and why. Blocking; at start. */
#pragma once

#include <jansson.h>

#include "engine/engine.h"
#include "util/config.h"

/* *out_reason is one sentence, to be freed. `tag` tells this installation's kernel objects from another's. */
VialEngine *vial_engine_select(const VialConfig *config, const char *tag, char **out_reason, GError **error);

typedef struct {
	json_t *report;   /* of the probe, or NULL */
	char *problem;    /* why it cannot be used at all, or NULL */
	gboolean is_fast; /* and is worth being chosen */
	char *reason;     /* one sentence */
} VialMicrovmCheck;

void vial_microvm_check(const VialConfig *config, VialMicrovmCheck *out);
void vial_microvm_check_clear(VialMicrovmCheck *check);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(VialMicrovmCheck, vial_microvm_check_clear)
