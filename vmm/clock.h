/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time, and waiting with an end. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t vial_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Waits until *flag, which `lock` guards and a broadcast of `changed` announces; 0 or -ETIMEDOUT. */
static inline int vial_clock_wait(pthread_mutex_t *lock, pthread_cond_t *changed, const bool *flag, unsigned timeout_ms)
{
	uint64_t end = vial_clock_ns() + timeout_ms * 1000000ull;
	struct timespec deadline = { (time_t)(end / 1000000000u), (long)(end % 1000000000u) };
	int result = 0;

	pthread_mutex_lock(lock);
	while (!*flag && result == 0)
		result = pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &deadline);
	pthread_mutex_unlock(lock);
	return -result;
}
