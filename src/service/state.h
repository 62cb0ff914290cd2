/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's life as one table: which state may follow which. */
#pragma once

#include <glib.h>

typedef enum {
	VIAL_STATE_CREATING,
	VIAL_STATE_RUNNING,
	VIAL_STATE_PAUSED,
	VIAL_STATE_HIBERNATING, /* its state is being written */
	VIAL_STATE_HIBERNATED,
	VIAL_STATE_WAKING,
	VIAL_STATE_DELETED,
	VIAL_STATE_FAILED,
	VIAL_N_STATES,
} VialState;

const char *vial_state_name(VialState state);
gboolean vial_state_parse(const char *text, VialState *out_state);
gboolean vial_state_may_follow(VialState from, VialState to);
