/* SPDX-License-Identifier: Apache-2.0 */
/* See erofs.h. */
#include "erofs.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT32_C(0xe0f5e1e2)
#define BLOCK VIAL_EROFS_BLOCK
#define BLOCK_BITS 12
#define SLOT 32u
#define SUPERBLOCK_AT 1024u
#define FIRST_INODE_AT (SUPERBLOCK_AT + 128u)
#define FORMAT_EXTENDED 1u
#define FORMAT_INLINE (2u << 1)

struct superblock {
	uint32_t magic, checksum, compatible;
	uint8_t block_bits, extra_slots;
	uint16_t root_nid;
	uint64_t inodes, build_time;
	uint32_t build_time_nsec, blocks, meta_block, xattr_block;
	uint8_t uuid[16], volume[16];
	uint32_t incompatible;
	uint8_t rest[44];
};
_Static_assert(sizeof(struct superblock) == 128, "the superblock has 128 bytes");

struct inode {
	uint16_t format, xattrs, mode, reserved;
	uint64_t size;
	uint32_t block, number, uid, gid;
	uint64_t mtime;
	uint32_t mtime_nsec, nlink;
	uint8_t rest[16];
};
_Static_assert(sizeof(struct inode) == 64, "an extended inode has 64 bytes");

struct entry {
	uint64_t nid;
	uint16_t name;
	uint8_t type, reserved;
} __attribute__((packed));
_Static_assert(sizeof(struct entry) == 12, "a directory entry has 12 bytes");

enum stage { STAGE_INODES, STAGE_DIRECTORIES, STAGE_FILES, STAGE_END };

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* --- places --- */

/* A target that does not fit into a block beside its inode has a block of its own. */
static bool is_inline(const struct vial_layer_node *node)
{
	return S_ISLNK(node->mode) && node->size_bytes > 0 && sizeof(struct inode) + node->size_bytes <= BLOCK;
}

static uint64_t place_inode(struct vial_layer_node *node, uint64_t at)
{
	uint64_t size = sizeof(struct inode) + (is_inline(node) ? node->size_bytes : 0);

	if (at / BLOCK != (at + size - 1) / BLOCK)
		at = round_up(at, BLOCK);
	node->nid = at / SLOT;
	return round_up(at + size, SLOT);
}

/* What comes after the last one of the block, which begins with `*child`; the entries are the children with "." and ".." among them. */
struct listing {
	const struct vial_layer_tree *tree;
	uint32_t directory;
	uint32_t next; /* 0: of the children and the two others, in their order */
	uint32_t dots; /* how many of those were given */
};

struct named {
	const char *name;
	size_t length;
	uint32_t node;
};

static bool peek(const struct listing *listing, struct named *out, bool *out_is_dot)
{
	static const char *const dots[] = { ".", ".." };
	const struct vial_layer_node *nodes = listing->tree->nodes, *directory = &nodes[listing->directory];
	const char *dot = listing->dots < 2 ? dots[listing->dots] : NULL;
	const char *child =
		listing->next < directory->child_count ? vial_layer_tree_name(listing->tree, directory->first_child + listing->next) : NULL;

	*out_is_dot = dot && (!child || strcmp(dot, child) < 0);
	if (*out_is_dot) {
		out->name = dot;
		out->node = listing->dots == 0 ? listing->directory : directory->parent;
	} else if (child) {
		out->name = child;
		out->node = directory->first_child + listing->next;
	} else {
		return false;
	}
	out->length = strlen(out->name);
	return true;
}

static void take(struct listing *listing, bool is_dot)
{
	if (is_dot)
		listing->dots++;
	else
		listing->next++;
}

/* How many entries go into the next block, and how many bytes of it they take; 0 entries when there are none left. */
static uint32_t measure_block(struct listing listing, size_t *out_bytes)
{
	struct named named;
	uint32_t count = 0;
	bool is_dot;

	*out_bytes = 0;
	while (peek(&listing, &named, &is_dot) && *out_bytes + sizeof(struct entry) + named.length <= BLOCK) {
		*out_bytes += sizeof(struct entry) + named.length;
		take(&listing, is_dot);
		count++;
	}
	return count;
}

static void skip(struct listing *listing, uint32_t count)
{
	struct named named;
	bool is_dot;

	while (count-- > 0 && peek(listing, &named, &is_dot))
		take(listing, is_dot);
}

static uint64_t directory_size(const struct vial_layer_tree *tree, uint32_t directory)
{
	struct listing listing = { .tree = tree, .directory = directory };
	uint64_t blocks = 0;
	size_t bytes, last = 0;
	uint32_t count;

	while ((count = measure_block(listing, &bytes)) > 0) {
		skip(&listing, count);
		blocks++;
		last = bytes;
	}
	return (blocks - 1) * BLOCK + last; /* "." and ".." are always there */
}

static uint64_t place_data(struct vial_layer_node *node, uint64_t block)
{
	node->block = (uint32_t)block;
	return block + round_up(node->size_bytes, BLOCK) / BLOCK;
}

static bool has_blocks(const struct vial_layer_node *node)
{
	return S_ISREG(node->mode) || (S_ISLNK(node->mode) && !is_inline(node));
}

int vial_erofs_init(struct vial_erofs *erofs, struct vial_layer_tree *tree)
{
	uint64_t at = FIRST_INODE_AT, block;

	*erofs = (struct vial_erofs){ .tree = tree, .directory_fd = -1, .file_fd = -1 };
	for (uint32_t i = 0; i < tree->count; i++) {
		if (S_ISDIR(tree->nodes[i].mode))
			tree->nodes[i].size_bytes = directory_size(tree, i);
		if (tree->nodes[i].inode == i)
			at = place_inode(&tree->nodes[i], at);
	}
	block = round_up(at, BLOCK) / BLOCK;
	for (uint32_t i = 0; i < tree->count; i++)
		if (S_ISDIR(tree->nodes[i].mode))
			block = place_data(&tree->nodes[i], block);
	for (uint32_t i = 0; i < tree->count; i++) {
		if (tree->nodes[i].inode != i || !has_blocks(&tree->nodes[i]))
			continue;
		if (tree->nodes[i].size_bytes > (uint64_t)UINT32_MAX * BLOCK)
			return -EFBIG;
		block = place_data(&tree->nodes[i], block);
		if (block > UINT32_MAX)
			return -EFBIG;
	}
	erofs->size_bytes = block * BLOCK;
	return 0;
}

void vial_erofs_clear(struct vial_erofs *erofs)
{
	if (erofs->directory_fd >= 0)
		close(erofs->directory_fd);
	if (erofs->file_fd >= 0)
		close(erofs->file_fd);
	erofs->directory_fd = erofs->file_fd = -1;
}

/* --- reading the upper directory --- */

static int enter(struct vial_erofs *erofs, uint32_t directory)
{
	int fd;

	if (erofs->directory_fd >= 0 && erofs->directory == directory)
		return 0;
	fd = vial_layer_tree_open(erofs->tree, directory);
	if (fd < 0)
		return fd;
	if (erofs->directory_fd >= 0)
		close(erofs->directory_fd);
	erofs->directory_fd = fd;
	erofs->directory = directory;
	return 0;
}

/* Exactly as many bytes as were counted; `buffer` has that room. */
static int read_target(struct vial_erofs *erofs, uint32_t index, uint8_t *buffer)
{
	const struct vial_layer_node *node = &erofs->tree->nodes[index];
	int result = enter(erofs, node->parent);
	ssize_t got;

	if (result < 0)
		return result;
	got = readlinkat(erofs->directory_fd, vial_layer_tree_name(erofs->tree, index), (char *)buffer, node->size_bytes);
	if (got < 0)
		return -errno;
	memset(buffer + got, 0, node->size_bytes - (size_t)got);
	return 0;
}

/* --- writing --- */

static void put_superblock(const struct vial_erofs *erofs, uint8_t *block)
{
	const struct vial_layer_tree *tree = erofs->tree;
	struct superblock super = { .magic = htole32(MAGIC), .block_bits = BLOCK_BITS };
	uint64_t inodes = 0;

	for (uint32_t i = 0; i < tree->count; i++)
		inodes += tree->nodes[i].inode == i;
	super.root_nid = htole16((uint16_t)tree->nodes[0].nid);
	super.inodes = htole64(inodes);
	super.blocks = htole32((uint32_t)(erofs->size_bytes / BLOCK));
	memcpy(super.volume, "vial-layer", 10);
	memcpy(block + SUPERBLOCK_AT, &super, sizeof(super));
}

static int put_inode(struct vial_erofs *erofs, uint32_t index, uint8_t *at)
{
	const struct vial_layer_node *node = &erofs->tree->nodes[index];
	struct inode inode = {
		.format = htole16((uint16_t)(FORMAT_EXTENDED | (is_inline(node) ? FORMAT_INLINE : 0))),
		.mode = htole16((uint16_t)node->mode),
		.size = htole64(node->size_bytes),
		.block = htole32(node->block),
		.number = htole32(index + 1),
		.uid = htole32(node->uid),
		.gid = htole32(node->gid),
		.mtime = htole64((uint64_t)node->mtime),
		.mtime_nsec = htole32(node->mtime_nsec),
		.nlink = htole32(node->nlink),
	};

	memcpy(at, &inode, sizeof(inode));
	return is_inline(node) ? read_target(erofs, index, at + sizeof(inode)) : 0;
}

/* One block of inodes; `done_bytes` is where it begins. */
static ssize_t write_inodes(struct vial_erofs *erofs, uint8_t *buffer)
{
	struct vial_layer_tree *tree = erofs->tree;
	uint64_t end = erofs->done_bytes + BLOCK;

	memset(buffer, 0, BLOCK);
	if (erofs->done_bytes == 0)
		put_superblock(erofs, buffer);
	for (; erofs->node < tree->count; erofs->node++) {
		const struct vial_layer_node *node = &tree->nodes[erofs->node];
		int result;

		if (node->inode != erofs->node)
			continue;
		if (node->nid * SLOT >= end)
			break;
		result = put_inode(erofs, erofs->node, buffer + (node->nid * SLOT - erofs->done_bytes));
		if (result < 0)
			return result;
	}
	erofs->done_bytes = end;
	if (erofs->node == tree->count) {
		erofs->stage = STAGE_DIRECTORIES;
		erofs->node = 0;
		erofs->done_bytes = 0;
	}
	return BLOCK;
}

static uint8_t entry_type(uint32_t mode)
{
	return S_ISREG(mode) ? 1 : S_ISDIR(mode) ? 2 : S_ISCHR(mode) ? 3 : 7;
}

/* One block of a directory. How far we are is `next_child` and `done_bytes`, which here counts the dots. */
static void write_entries(struct vial_erofs *erofs, uint8_t *buffer)
{
	struct vial_layer_tree *tree = erofs->tree;
	struct listing listing = { .tree = tree, .directory = erofs->node, .next = erofs->next_child, .dots = (uint32_t)erofs->done_bytes };
	size_t bytes;
	uint32_t count = measure_block(listing, &bytes);
	size_t name_at = count * sizeof(struct entry);
	struct named named;
	bool is_dot;

	memset(buffer, 0, BLOCK);
	for (uint32_t i = 0; i < count && peek(&listing, &named, &is_dot); i++) {
		const struct vial_layer_node *node = &tree->nodes[tree->nodes[named.node].inode];
		struct entry entry = { .nid = htole64(node->nid), .name = htole16((uint16_t)name_at), .type = entry_type(node->mode) };

		memcpy(buffer + i * sizeof(entry), &entry, sizeof(entry));
		memcpy(buffer + name_at, named.name, named.length);
		name_at += named.length;
		take(&listing, is_dot);
	}
	erofs->next_child = listing.next;
	erofs->done_bytes = listing.dots;
}

static ssize_t write_directories(struct vial_erofs *erofs, uint8_t *buffer)
{
	struct vial_layer_tree *tree = erofs->tree;
	struct listing rest;
	size_t bytes;

	write_entries(erofs, buffer);
	rest = (struct listing){ .tree = tree, .directory = erofs->node, .next = erofs->next_child, .dots = (uint32_t)erofs->done_bytes };
	if (measure_block(rest, &bytes) > 0)
		return BLOCK;
	erofs->next_child = 0;
	erofs->done_bytes = 0;
	do
		erofs->node++;
	while (erofs->node < tree->count && !S_ISDIR(tree->nodes[erofs->node].mode));
	if (erofs->node == tree->count) {
		erofs->stage = STAGE_FILES;
		erofs->node = 0;
	}
	return BLOCK;
}

static int open_file(struct vial_erofs *erofs)
{
	int result;

	if (erofs->file_fd >= 0)
		return 0;
	result = enter(erofs, erofs->tree->nodes[erofs->node].parent);
	if (result < 0)
		return result;
	erofs->file_fd = openat(erofs->directory_fd, vial_layer_tree_name(erofs->tree, erofs->node), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return erofs->file_fd < 0 ? -errno : 0;
}

static void next_file(struct vial_erofs *erofs)
{
	if (erofs->file_fd >= 0)
		close(erofs->file_fd);
	erofs->file_fd = -1;
	erofs->done_bytes = 0;
	erofs->node++;
}

/* As much as fits of the file at hand. What it lacks of its size, and of its last block, is zeros. */
static ssize_t write_file(struct vial_erofs *erofs, uint8_t *buffer, size_t size_bytes)
{
	uint64_t total = erofs->tree->nodes[erofs->node].size_bytes;
	uint64_t left = round_up(total, BLOCK) - erofs->done_bytes;
	size_t wanted = left < size_bytes ? (size_t)left : size_bytes / BLOCK * BLOCK, got = 0;
	size_t of_file = total - erofs->done_bytes < wanted ? (size_t)(total - erofs->done_bytes) : wanted;
	int result = open_file(erofs);

	while (result == 0 && got < of_file) {
		ssize_t more = read(erofs->file_fd, buffer + got, of_file - got);

		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0)
			result = -errno;
		if (more <= 0)
			break;
		got += (size_t)more;
	}
	if (result < 0)
		return result;
	memset(buffer + got, 0, wanted - got);
	erofs->done_bytes += wanted;
	if (erofs->done_bytes >= total)
		next_file(erofs);
	return (ssize_t)wanted;
}

static ssize_t write_long_target(struct vial_erofs *erofs, uint8_t *buffer)
{
	int result;

	memset(buffer, 0, BLOCK);
	result = read_target(erofs, erofs->node, buffer);
	erofs->node++;
	return result < 0 ? result : (ssize_t)BLOCK;
}

static ssize_t write_files(struct vial_erofs *erofs, uint8_t *buffer, size_t size_bytes)
{
	const struct vial_layer_tree *tree = erofs->tree;

	for (; erofs->node < tree->count; erofs->node++) {
		const struct vial_layer_node *node = &tree->nodes[erofs->node];

		if (node->inode != erofs->node || node->size_bytes == 0 || !has_blocks(node))
			continue;
		return S_ISREG(node->mode) ? write_file(erofs, buffer, size_bytes) : write_long_target(erofs, buffer);
	}
	erofs->stage = STAGE_END;
	return 0;
}

ssize_t vial_erofs_read(struct vial_erofs *erofs, uint8_t *buffer, size_t size_bytes)
{
	switch (erofs->stage) {
	case STAGE_INODES:
		return write_inodes(erofs, buffer);
	case STAGE_DIRECTORIES:
		return write_directories(erofs, buffer);
	case STAGE_FILES:
		return write_files(erofs, buffer, size_bytes);
	default:
		return 0;
	}
}
