/* SPDX-License-Identifier: Apache-2.0 */
/* See calm.h. All of it is in the agent's memory, so a fork or a snapshot of a used sandbox is a used one. */
#include "calm.h"

#include <stdint.h>

#include "loop.h"
#include "memguard.h"
#include "streams.h"
#include "zone.h"

/* Longer than the zone's beat, so that an operation that has just ended was watched to its end. */
#define CALM_MS 4000

static int64_t last_ms;
static bool has_ended; /* since somebody asked; when, is not worth a look at the clock */
static bool is_used;

bool vial_calm(void)
{
	int64_t now_ms = vial_loop_now_ms();

	if (has_ended || vial_streams_count() > 0)
		last_ms = now_ms;
	has_ended = false;
	return now_ms - last_ms >= CALM_MS;
}

bool vial_calm_is_untouched(void)
{
	return !is_used;
}

void vial_calm_end(bool is_ours)
{
	has_ended = true;
	is_used = is_used || !is_ours;
	vial_memguard_hasten();
	vial_zone_hasten();
}
