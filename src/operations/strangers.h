/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that were refused before anybody was somebody: recorded, but so that whoever knocks a million times does not fill the disk. The first refusal
 * of an address is a record; those that follow within a minute are counted, and told in one more at the end of it. Main thread.
 */
#pragma once

#include "auth/identity.h"
#include "service/app.h"

VialStrangers *vial_strangers_new(VialApp *app);
void vial_strangers_free(VialStrangers *strangers); /* accepts NULL; tells what it has counted */
/* `peer` NULL: a unix socket. `known`: the key is somebody's, but may not be used so; NULL: nobody's. */
void vial_strangers_note(VialStrangers *strangers, const char *peer, const VialIdentity *known, const char *why);
