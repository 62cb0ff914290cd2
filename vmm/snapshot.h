/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a parked machine to descriptors that viald opened: the state, the memory (sparse), and each writable disk's private clusters. */
#pragma once

#include "machine.h"

struct vial_snapshot_fds {
	int state;
	int memory;
	int disks[VIAL_MAX_DISKS]; /* by writable disk, in order */
};

struct vial_snapshot_result {
	int result; /* 0 or -errno */
	uint64_t memory_bytes;
	uint64_t disk_bytes;
	uint64_t duration_us;
};

/*
 * One bit per page: it has been touched, and is in memory or in swap. mincore(2) would not do, to it a page that was swapped out is as absent as one
 * that never was. By the monitor itself, parked: `pagemap_fd` shows its pages, not those of the process that writes. NULL: it cannot be known, look
 * at all of them.
 */
uint8_t *vial_snapshot_touched(const struct vial_memory *memory, int pagemap_fd);

/* Blocks for as long as writing takes: called in a process forked for it, or while everything stays parked. `touched` may be NULL. */
void vial_snapshot_write(struct vial_machine *machine, const struct vial_state_writer *state, const uint8_t *touched,
                         const struct vial_snapshot_fds *fds, struct vial_snapshot_result *out_result);
unsigned vial_machine_writable_disks(const struct vial_machine *machine);
