/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's file tree at a cold boot: a writable disk of limited size over the read-only image. */
#pragma once

#include <stdint.h>

/* `disk_mb` 0: the root is writable already. 0 or -errno, with what failed in *out_step. */
int vial_rootfs_init(unsigned long disk_mb, const char **out_step);
/* The disk's size and use; for the memory guard too, because gVisor keeps the disk in the sandbox's memory. */
void vial_rootfs_disk(uint64_t *out_used_kb, uint64_t *out_total_kb);
/* Whether what is on the disk takes the sandbox's memory. */
int vial_rootfs_disk_is_memory(void);
/* Empties /dev/shm, which outlives the programs that filled it. */
void vial_rootfs_clear_shared_memory(void);
