/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether anybody talks to this sandbox. Most sandboxes wait most of the time, and a hundred that wait must cost what one that works does: what has
 * to look at something now and then (the memory guard, the zone's beat) looks seldom, or not at all, while nobody does, and is hastened by
 * the next operation.
 */
#pragma once

#include <stdbool.h>

/* No operation is open, and for some seconds none has been. */
bool vial_calm(void);
/* Only ours has ever run here: kernels as the template has them, and no word from a user yet. */
bool vial_calm_is_untouched(void);
/* An operation begins. `is_ours`: it runs nothing of the user's. */
void vial_calm_end(bool is_ours);
