/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the answer to a run or an exec has no room for: a file in the sandbox, written with the user's rights. The first 64 KiB are kept in memory,
 * so that ordinary output touches no disk; a file whose answer turns out not to be cut is removed again. Two kinds: the full text of what was cut,
 * and a run's results beyond the budget, one JSON text per line. The latest eight of each kind are kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "users.h"

struct vial_spill;

enum vial_spill_kind { VIAL_SPILL_OUTPUT, VIAL_SPILL_RESULTS };

/* NULL when there is no memory; every other call takes NULL. */
struct vial_spill *vial_spill_new(enum vial_spill_kind kind, const char *execution_id, const struct vial_user *user);
/* False: it is not, or not wholly, in the file (the disk is full); a line is there wholly or not at all. */
bool vial_spill_add(struct vial_spill *spill, const uint8_t *bytes, size_t size_bytes);
/* The file's path when `is_kept` and there is one, else NULL; valid until the next call here. Frees it. */
const char *vial_spill_finish(struct vial_spill *spill, bool is_kept);
