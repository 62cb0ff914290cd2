/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts writing a folder's files out to the disk while somebody else is still filling them, so that the flush that makes them durable finds
 * little left to do. Only a hint: nothing is waited for, and nothing depends on it.
 */
#pragma once

#include <glib.h>

typedef struct VialWriteBehind VialWriteBehind;

VialWriteBehind *vial_write_behind_start(const char *dir);
/* Does not wait either. Accepts NULL. */
void vial_write_behind_stop(VialWriteBehind *behind);
