/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes behind a block device: a read-only base image that all sandboxes share, frozen layers above it, and one private layer on top
 * that takes the writes. Each layer is a sparse file with the data at its natural offset; a map says which layer holds a cluster.
 * Freezing is one assignment: the top layer becomes frozen and a fresh one is put above it. So a fork and its parent, or a snapshot and
 * the machine that goes on, share every layer below, and the disk is cut in the same paused instant as the memory.
 *
 * Used by one thread at a time (device thread, or the control thread while everything is parked).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIAL_DISK_CLUSTER_BYTES 4096u
#define VIAL_DISK_MAX_BYTES (256ull << 30)
/* Each is a descriptor, and its number one byte of the map. A machine that wrote between so many forks has them merged, which takes as long as
 * copying. */
#define VIAL_DISK_MAX_LAYERS 200u

struct vial_disk {
	int base_fd;
	uint64_t base_bytes;
	uint64_t size_bytes;
	uint8_t *map; /* per cluster: 0 the base, n layer n - 1; NULL for a read-only disk */
	uint64_t clusters;
	int layers[VIAL_DISK_MAX_LAYERS]; /* the last one is written to */
	unsigned layer_count;
	bool is_top_written;
};

/*
 * Takes the descriptors over. `base_fd` was opened read-only. `size_bytes` 0 means the base's size; more is read as zeros behind it.
 * `overlay_fd` -1 makes the disk read-only: there is then nothing in this process through which it could be written.
 */
int vial_disk_init(struct vial_disk *disk, int base_fd, int overlay_fd, uint64_t size_bytes);
/* Puts a snapshot's layer between base and top: `bitmap` has one bit per cluster it holds. Takes the descriptor over. */
int vial_disk_add_frozen(struct vial_disk *disk, int layer_fd, const uint8_t *bitmap, size_t bitmap_bytes);
void vial_disk_close(struct vial_disk *disk);
bool vial_disk_is_read_only(const struct vial_disk *disk);

/* Any offset and length within the disk. 0 or -errno. */
int vial_disk_read(struct vial_disk *disk, uint64_t offset, void *out, size_t length);
int vial_disk_write(struct vial_disk *disk, uint64_t offset, const void *data, size_t length);
int vial_disk_flush(struct vial_disk *disk);

/*
 * Freezes the top layer and takes `fd`, empty, as the new one. An unwritten top stays as it is and `fd` is closed: so a parked template
 * that is forked for every sandbox never grows deeper. One layer too many, and all of them are merged first. On error `fd` stays the caller's.
 */
int vial_disk_freeze(struct vial_disk *disk, int fd);
/* In a fork: replaces the (empty) top layer, which is still the parent's file. */
int vial_disk_replace_top(struct vial_disk *disk, int fd);
/* Copies every cluster that is not the base's to the same offset of `fd`; the bitmap of them is (clusters + 7) / 8 bytes. */
int vial_disk_flatten(struct vial_disk *disk, int fd, uint64_t *out_bytes);
void vial_disk_bitmap(const struct vial_disk *disk, uint8_t *out_bitmap);
uint64_t vial_disk_private_bytes(const struct vial_disk *disk);
