/* SPDX-License-Identifier: Apache-2.0 */
/* The memory guard: ends the biggest program before the sandbox as a whole runs out of memory. */
#pragma once

#include <stdint.h>

/* 0: no limit but the machine's own. Starts the guard. */
void vial_memguard_set_limit(uint64_t limit_kb);
/* An operation begins after a time of calm (calm.h): looks soon, and often from now on. */
void vial_memguard_hasten(void);
/* Program memory in use and the limit it is held against. */
void vial_memguard_usage(uint64_t *out_used_kb, uint64_t *out_limit_kb);
