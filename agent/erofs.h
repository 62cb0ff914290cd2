/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An EROFS image of a tree (layertree.h), written from its first byte to its last: it can be sent while it is made, and takes no room in the guest.
 *
 * Only what both of its readers know, gVisor's pkg/erofs and Linux: version 1, blocks of 4 KiB, extended inodes, plain data; the targets of symbolic
 * links beside their inodes; no compression, no attributes, no checksum (the host hashes the whole file). In this order:
 *
 *     block 0      1024: the superblock; 1152: the first inode, the root's, is number 36 (in units of 32 bytes)
 *     …            all other inodes, none across two blocks
 *     directories  each from a block of its own; entries in the order of their names
 *     files        likewise
 */
#pragma once

#include <sys/types.h>

#include "layertree.h"

struct vial_erofs {
	struct vial_layer_tree *tree;
	uint64_t size_bytes;
	/* where writing is */
	int stage;
	uint32_t node;       /* the next one */
	uint64_t done_bytes; /* of its data, or of the inodes' blocks */
	uint32_t next_child;
	int directory_fd, file_fd;
	uint32_t directory; /* that directory_fd is of */
};

/* Gives everything its place. The tree must have been walked and stay. 0, or -EFBIG when it is more than EROFS can count. */
int vial_erofs_init(struct vial_erofs *erofs, struct vial_layer_tree *tree);
void vial_erofs_clear(struct vial_erofs *erofs);
#define VIAL_EROFS_BLOCK 4096u
/* The next bytes, at least VIAL_EROFS_BLOCK of room. How many; 0 at the end; -errno. A file that has shrunk meanwhile is filled with zeros. */
ssize_t vial_erofs_read(struct vial_erofs *erofs, uint8_t *buffer, size_t size_bytes);
