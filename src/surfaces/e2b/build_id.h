/* SPDX-License-Identifier: Apache-2.0 */
/* Builds are called by UUIDs there, and by ids of ours here: the same number, written in another base. */
#pragma once

#include <glib.h>

/* Of an id (util/id.h). Free it. */
char *vial_e2b_uuid(const char *id);
/* Of a UUID: an id to be freed, or NULL if it is that of none. */
char *vial_e2b_uuid_to_id(const char *uuid);
