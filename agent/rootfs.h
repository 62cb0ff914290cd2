/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's file tree at a cold boot: a writable disk of limited size over the read-only image. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Where the host mounts a template's layers at a cold boot: …/0 is the lowest. */
#define VIAL_ROOTFS_LAYERS "/dev/vial-layers"
#define VIAL_ROOTFS_MAX_LAYERS 16u

/* Where the root was laid together before we came (vmm/guest/init.c): its upper directory, and after it the lower ones, as below. */
#define VIAL_ROOTFS_LAYER_FDS 20

struct vial_rootfs_options {
	unsigned long disk_mb; /* a tmpfs of that size is the disk; 0: the root is writable already */
	unsigned layer_count;  /* in VIAL_ROOTFS_LAYERS */
	unsigned fd_count;     /* from VIAL_ROOTFS_LAYER_FDS on; 0: there are none */
};

/* 0 or -errno, with what failed in *out_step. */
int vial_rootfs_init(const struct vial_rootfs_options *wanted, const char **out_step);

/* What the root is made of: the directory with all that was changed, and what is below it, from the top down. */
struct vial_rootfs_layers {
	int upper_fd;
	int lower_fds[VIAL_ROOTFS_MAX_LAYERS + 1];
	size_t lower_count;
};
/* NULL where the root is no overlay. */
const struct vial_rootfs_layers *vial_rootfs_layers(void);
/* The disk's size and use; for the memory guard too, because gVisor keeps the disk in the sandbox's memory. */
void vial_rootfs_disk(uint64_t *out_used_kb, uint64_t *out_total_kb);
/* Whether what is on the disk takes the sandbox's memory. */
int vial_rootfs_disk_is_memory(void);
/* Empties /dev/shm, which outlives the programs that filled it. */
void vial_rootfs_clear_shared_memory(void);
