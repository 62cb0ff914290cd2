/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory is in a machine, besides that of the user it is for: of those out of whose sandboxes the snapshots were taken that it, and what it was
 * made from, began with. It goes on with every snapshot and fork, so that whoever is to be forgotten is found in all of them (forget.h).
 */
#pragma once

#include "service/snapshot.h"

/* The users whose memory is in it: whose sandbox it was of, and those before him; the caller's. NULL: nobody's in particular. */
char **vial_snapshot_memory_of(const VialSnapshot *snapshot);
/* As a fact of a snapshot; NULL for none. */
json_t *vial_memory_of_json(char **users);
