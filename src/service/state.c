/* SPDX-License-Identifier: Apache-2.0 */
#include "service/state.h"

#include <string.h>

static const char *const names[VIAL_N_STATES] = {
	[VIAL_STATE_CREATING] = "creating",       [VIAL_STATE_RUNNING] = "running",       [VIAL_STATE_PAUSED] = "paused",
	[VIAL_STATE_HIBERNATING] = "hibernating", [VIAL_STATE_HIBERNATED] = "hibernated", [VIAL_STATE_WAKING] = "waking",
	[VIAL_STATE_DELETED] = "deleted",         [VIAL_STATE_FAILED] = "failed",
};

#define TO(state) (1u << VIAL_STATE_##state)
/* Every state may end in DELETED or FAILED. A hibernation or a wake that fails goes back to where it came from. One that has failed may be given
 * another machine (in_place.c). */
static const unsigned followers[VIAL_N_STATES] = {
	[VIAL_STATE_CREATING] = TO(RUNNING),
	[VIAL_STATE_RUNNING] = TO(PAUSED) | TO(HIBERNATING),
	[VIAL_STATE_PAUSED] = TO(RUNNING) | TO(HIBERNATING),
	[VIAL_STATE_HIBERNATING] = TO(HIBERNATED) | TO(RUNNING) | TO(PAUSED),
	[VIAL_STATE_HIBERNATED] = TO(WAKING),
	[VIAL_STATE_WAKING] = TO(RUNNING) | TO(HIBERNATED),
	[VIAL_STATE_DELETED] = 0,
	[VIAL_STATE_FAILED] = TO(RUNNING),
};

const char *vial_state_name(VialState state)
{
	return state < VIAL_N_STATES ? names[state] : "unknown";
}

gboolean vial_state_parse(const char *text, VialState *out_state)
{
	for (guint i = 0; i < VIAL_N_STATES; i++)
		if (strcmp(text, names[i]) == 0) {
			*out_state = i;
			return TRUE;
		}
	return FALSE;
}

gboolean vial_state_may_follow(VialState from, VialState to)
{
	if (from == VIAL_STATE_DELETED)
		return FALSE;
	if (to == VIAL_STATE_DELETED)
		return TRUE;
	if (to == VIAL_STATE_FAILED)
		return from != VIAL_STATE_FAILED;
	return (followers[from] & (1u << to)) != 0;
}
