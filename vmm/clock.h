/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time in nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t vial_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}
