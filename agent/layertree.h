/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a layer is packed of: every entry of the overlay's upper directory that belongs in a template, breadth first, so that the children of a
 * directory lie beside each other, in the order of their names.
 *
 * Whiteouts (character devices 0:0) stay what they are. A directory that hides what is below it (trusted.overlay.opaque) says so by a whiteout for
 * each entry that the layers below have and it has not, and so does everything under it: gVisor's EROFS knows no extended attributes. Devices, FIFOs
 * and sockets are left out: in gVisor a device of such an image could not be told from a whiteout, and the others could not be opened.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bound of our memory: about 100 bytes and its name for each entry. */
#define VIAL_LAYER_MAX_ENTRIES 1000000u
#define VIAL_LAYER_MAX_LOWER 17u
/* Deeper than any path the kernel takes; what steps down to a directory steps by recursion. */
#define VIAL_LAYER_MAX_DEPTH 4096u

struct vial_layer_node {
	uint32_t parent; /* the root is its own */
	uint32_t name;   /* its place among the names */
	uint32_t inode;  /* the node that stands for the inode: another one for every further name of a file; else itself */
	uint32_t first_child, child_count;
	uint32_t mode, uid, gid, nlink;
	uint32_t mtime_nsec;
	int64_t mtime;
	uint64_t size_bytes;
	uint64_t number; /* of the inode in the upper directory */
	uint64_t nid;    /* erofs.c's: where its inode and its data will be */
	uint32_t block;
	uint16_t depth;
	bool is_opaque;
};

struct vial_layer_tree {
	int upper_fd;
	int lower_fds[VIAL_LAYER_MAX_LOWER];
	size_t lower_count;
	struct vial_layer_node *nodes;
	uint32_t count, capacity;
	uint32_t walked; /* directories before this one have been read */
	char *names;
	size_t names_size, names_capacity;
	uint32_t *links; /* a hash of those with more than one name; 0 is free */
	uint32_t link_count, link_capacity;
	uint32_t skipped; /* devices, FIFOs, sockets */
};

/* The descriptors stay the caller's, who keeps them open. 0 or -errno. */
int vial_layer_tree_init(struct vial_layer_tree *tree, int upper_fd, const int *lower_fds, size_t lower_count);
void vial_layer_tree_clear(struct vial_layer_tree *tree);
/* Reads the next directory. 1: there are more; 0: that was all; -errno, -EOVERFLOW for too many entries, -ELOOP for directories nested too deep. */
int vial_layer_tree_walk(struct vial_layer_tree *tree);
const char *vial_layer_tree_name(const struct vial_layer_tree *tree, uint32_t node);
/* Opens a directory of the upper, a descriptor or -errno. */
int vial_layer_tree_open(const struct vial_layer_tree *tree, uint32_t directory);
