/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot set: which pages a restored machine touched until it was ready. Recorded once after a trial restore, fetched in one go before the
 * next ones run: a batch costs a tenth of the page faults it replaces. A list of runs, first pages that were read, then pages that were written.
 */
#pragma once

#include "memory.h"

/* Looks at our own page tables: present means touched. `pagemap_fd` is /proc/self/pagemap, opened before the jail. Writes the list to `fd`. */
int vial_hotset_record(const struct vial_memory *memory, int pagemap_fd, int fd, uint64_t *out_bytes);
/* Best effort: a damaged or alien list is -EPROTO and changes nothing that matters. */
int vial_hotset_fetch(const struct vial_memory *memory, const uint8_t *list, size_t size_bytes, uint64_t *out_bytes);
