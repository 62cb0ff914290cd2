/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The full text of a run whose answer is cut: a file in the sandbox, written with the user's rights. The first 64 KiB are kept in memory,
 * so that a run with ordinary output touches no disk; a file whose run turns out not to be cut is removed again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "users.h"

struct vial_spill;

/* NULL when there is no memory; every other call takes NULL. */
struct vial_spill *vial_spill_new(const char *execution_id, const struct vial_user *user);
void vial_spill_add(struct vial_spill *spill, const uint8_t *bytes, size_t size_bytes);
/* The file's path when `is_kept` and there is one, else NULL; valid until the next call here. Frees it. */
const char *vial_spill_finish(struct vial_spill *spill, bool is_kept);
