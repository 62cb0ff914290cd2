/* SPDX-License-Identifier: Apache-2.0 */
/* See layertree.h. Nothing changes the directories meanwhile: layer.c has ended everybody who could. */
#include "layertree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OPAQUE "trusted.overlay.opaque"
#define MAX_RULE_PATH 32
#define OPEN_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/*
 * What is of the sandbox that was and not of the template: what the agent mounts or writes for itself, and what does not outlive a boot anywhere.
 * Relative to the root; with a slash at the end, what is in it.
 */
static const char *const left_out[] = {
	"dev",      "proc",      "sys",          "opt/vial",        "tmp/",           "run/",
	"var/tmp/", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/machine-id", "etc/apt/apt.conf.d/95vial-no-network",
};

const char *vial_layer_tree_name(const struct vial_layer_tree *tree, uint32_t node)
{
	return tree->names + tree->nodes[node].name;
}

/* --- growing --- */

static int grow(void **memory, size_t item_size, size_t needed, size_t *capacity)
{
	size_t wanted = *capacity ? *capacity : 256;
	void *grown;

	while (wanted < needed)
		wanted *= 2;
	if (wanted == *capacity)
		return 0;
	grown = realloc(*memory, wanted * item_size);
	if (!grown)
		return -ENOMEM;
	*memory = grown;
	*capacity = wanted;
	return 0;
}

static int add_node(struct vial_layer_tree *tree, const char *name, const struct vial_layer_node *node)
{
	size_t length = strlen(name) + 1, capacity = tree->capacity;
	void *nodes = tree->nodes, *names = tree->names;
	int result;

	if (tree->count >= VIAL_LAYER_MAX_ENTRIES)
		return -EOVERFLOW;
	result = grow(&nodes, sizeof(*node), tree->count + 1, &capacity);
	tree->nodes = nodes;
	tree->capacity = (uint32_t)capacity;
	if (result == 0)
		result = grow(&names, 1, tree->names_size + length, &tree->names_capacity);
	tree->names = names;
	if (result < 0)
		return result;
	tree->nodes[tree->count] = *node;
	tree->nodes[tree->count].name = (uint32_t)tree->names_size;
	tree->nodes[tree->count].inode = tree->count;
	memcpy(tree->names + tree->names_size, name, length);
	tree->names_size += length;
	tree->count++;
	return 0;
}

/* --- files with several names --- */

static uint32_t *find_link(const struct vial_layer_tree *tree, uint64_t number)
{
	uint32_t at = (uint32_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (tree->link_capacity - 1);

	while (tree->links[at] && tree->nodes[tree->links[at]].number != number)
		at = (at + 1) & (tree->link_capacity - 1);
	return &tree->links[at];
}

static int grow_links(struct vial_layer_tree *tree)
{
	uint32_t *old = tree->links, capacity = tree->link_capacity;

	if (tree->link_count * 2 < capacity)
		return 0;
	tree->link_capacity = capacity ? capacity * 2 : 256;
	tree->links = calloc(tree->link_capacity, sizeof(*tree->links));
	if (!tree->links) {
		tree->links = old;
		tree->link_capacity = capacity;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < capacity; i++)
		if (old[i])
			*find_link(tree, tree->nodes[old[i]].number) = old[i];
	free(old);
	return 0;
}

/* The node just added has other names, perhaps in the layer too. The root, node 0, is no file. */
static int link_node(struct vial_layer_tree *tree, uint32_t index)
{
	uint32_t *slot;

	if (grow_links(tree) < 0)
		return -ENOMEM;
	slot = find_link(tree, tree->nodes[index].number);
	if (*slot) {
		tree->nodes[index].inode = *slot;
		tree->nodes[*slot].nlink++;
	} else {
		*slot = index;
		tree->link_count++;
	}
	return 0;
}

/* --- directories --- */

/* By single steps, since a path may be longer than the kernel takes; from the root, of the upper directory or of one below. */
static int open_below(const struct vial_layer_tree *tree, int root_fd, uint32_t directory)
{
	int parent_fd, fd;

	if (directory == 0) {
		fd = openat(root_fd, ".", OPEN_FLAGS);
		return fd < 0 ? -errno : fd;
	}
	parent_fd = open_below(tree, root_fd, tree->nodes[directory].parent);
	if (parent_fd < 0)
		return parent_fd;
	fd = openat(parent_fd, vial_layer_tree_name(tree, directory), OPEN_FLAGS);
	if (fd < 0)
		fd = -errno;
	close(parent_fd);
	return fd;
}

int vial_layer_tree_open(const struct vial_layer_tree *tree, uint32_t directory)
{
	return open_below(tree, tree->upper_fd, directory);
}

/* "usr/share", or something long when it is too long for any rule. */
static void path_of(const struct vial_layer_tree *tree, uint32_t directory, char out_path[MAX_RULE_PATH])
{
	const char *name = vial_layer_tree_name(tree, directory);
	size_t length;

	if (directory == 0) {
		out_path[0] = '\0';
		return;
	}
	path_of(tree, tree->nodes[directory].parent, out_path);
	length = strlen(out_path);
	if (length + strlen(name) + 2 > MAX_RULE_PATH) {
		memset(out_path, '/', MAX_RULE_PATH - 1);
		out_path[MAX_RULE_PATH - 1] = '\0';
		return;
	}
	if (length > 0)
		out_path[length++] = '/';
	strcpy(out_path + length, name);
}

static bool is_left_out(const char *folder, const char *name)
{
	size_t length = strlen(folder);

	for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++) {
		const char *rule = left_out[i];

		if (strncmp(rule, folder, length) != 0)
			continue;
		rule += length;
		if (length > 0 && *rule++ != '/')
			continue;
		if (strcmp(rule, name) == 0 || (length > 0 && !*rule))
			return true;
	}
	return false;
}

static int compare_names(const void *a, const void *b, void *data)
{
	const struct vial_layer_tree *tree = data;
	const struct vial_layer_node *left = a, *right = b;

	return strcmp(tree->names + left->name, tree->names + right->name);
}

static bool is_kept(uint32_t mode, dev_t device)
{
	return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || (S_ISCHR(mode) && device == 0);
}

static int add_entry(struct vial_layer_tree *tree, int directory_fd, uint32_t directory, const char *name)
{
	struct vial_layer_node node = { .parent = directory };
	struct stat info;

	if (fstatat(directory_fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!is_kept(info.st_mode, info.st_rdev)) {
		tree->skipped++;
		return 0;
	}
	node.mode = info.st_mode;
	node.uid = info.st_uid;
	node.gid = info.st_gid;
	node.nlink = S_ISDIR(info.st_mode) ? 2 : (uint32_t)info.st_nlink; /* until it is known how many are here */
	node.mtime = info.st_mtim.tv_sec;
	node.mtime_nsec = (uint32_t)info.st_mtim.tv_nsec;
	node.size_bytes = S_ISREG(info.st_mode) || S_ISLNK(info.st_mode) ? (uint64_t)info.st_size : 0;
	node.number = info.st_ino;
	node.is_opaque = tree->nodes[directory].is_opaque;
	node.depth = (uint16_t)(tree->nodes[directory].depth + 1);
	if (S_ISDIR(info.st_mode) && node.depth > VIAL_LAYER_MAX_DEPTH)
		return -ELOOP;
	return add_node(tree, name, &node);
}

static bool has_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int read_upper(struct vial_layer_tree *tree, int fd, uint32_t directory, const char *folder)
{
	struct dirent *entry;
	DIR *listing = fdopendir(fd);
	int result = 0;

	if (!listing) {
		close(fd);
		return -ENOMEM;
	}
	while (result == 0 && (errno = 0, entry = readdir(listing)))
		if (!has_dots(entry->d_name) && !is_left_out(folder, entry->d_name))
			result = add_entry(tree, dirfd(listing), directory, entry->d_name);
	if (result == 0 && errno)
		result = -errno;
	closedir(listing);
	return result;
}

static void sort_from(struct vial_layer_tree *tree, uint32_t first)
{
	if (tree->count > first)
		qsort_r(tree->nodes + first, tree->count - first, sizeof(*tree->nodes), compare_names, tree);
}

/* Among those that were sorted. */
static bool has_child(const struct vial_layer_tree *tree, uint32_t first, uint32_t end, const char *name)
{
	while (first < end) {
		uint32_t middle = first + (end - first) / 2;
		int order = strcmp(name, vial_layer_tree_name(tree, middle));

		if (order == 0)
			return true;
		if (order < 0)
			end = middle;
		else
			first = middle + 1;
	}
	return false;
}

static int hide_entries_of(struct vial_layer_tree *tree, DIR *listing, uint32_t directory, const char *folder)
{
	const struct vial_layer_node whiteout = { .parent = directory, .mode = S_IFCHR, .nlink = 1 };
	uint32_t first = tree->nodes[directory].first_child, end = tree->count;
	struct dirent *entry;
	int result = 0;

	while (result == 0 && (entry = readdir(listing)))
		if (!has_dots(entry->d_name) && !is_left_out(folder, entry->d_name) && !has_child(tree, first, end, entry->d_name))
			result = add_node(tree, entry->d_name, &whiteout);
	sort_from(tree, first);
	return result;
}

/* What the layers below have in a directory that hides it. */
static int hide_lower(struct vial_layer_tree *tree, uint32_t directory, const char *folder)
{
	int result = 0;

	for (size_t i = 0; i < tree->lower_count && result == 0; i++) {
		int fd = open_below(tree, tree->lower_fds[i], directory);
		DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;

		if (listing)
			result = hide_entries_of(tree, listing, directory, folder);
		if (listing)
			closedir(listing);
		else if (fd >= 0)
			close(fd);
	}
	return result;
}

static bool is_marked_opaque(int fd)
{
	char value = 0;

	return fgetxattr(fd, OPAQUE, &value, 1) == 1 && value == 'y';
}

/* Links and subdirectories are counted when all children are in their place. */
static int settle(struct vial_layer_tree *tree, uint32_t directory)
{
	struct vial_layer_node *node = &tree->nodes[directory];
	int result = 0;

	for (uint32_t i = node->first_child; i < node->first_child + node->child_count && result == 0; i++) {
		struct vial_layer_node *child = &tree->nodes[i];
		bool may_have_others = !S_ISDIR(child->mode) && child->nlink > 1;

		child->inode = i;
		if (S_ISDIR(child->mode))
			node->nlink++;
		else
			child->nlink = 1;
		if (may_have_others)
			result = link_node(tree, i);
	}
	return result;
}

static int read_directory(struct vial_layer_tree *tree, uint32_t directory)
{
	int fd = vial_layer_tree_open(tree, directory);
	char folder[MAX_RULE_PATH];
	int result;

	if (fd < 0)
		return fd;
	path_of(tree, directory, folder);
	tree->nodes[directory].is_opaque = tree->nodes[directory].is_opaque || is_marked_opaque(fd);
	tree->nodes[directory].first_child = tree->count;
	result = read_upper(tree, fd, directory, folder);
	sort_from(tree, tree->nodes[directory].first_child);
	if (result == 0 && tree->nodes[directory].is_opaque)
		result = hide_lower(tree, directory, folder);
	tree->nodes[directory].child_count = tree->count - tree->nodes[directory].first_child;
	return result < 0 ? result : settle(tree, directory);
}

int vial_layer_tree_init(struct vial_layer_tree *tree, int upper_fd, const int *lower_fds, size_t lower_count)
{
	struct vial_layer_node root = { .nlink = 2 };
	struct stat info;

	memset(tree, 0, sizeof(*tree));
	if (lower_count > VIAL_LAYER_MAX_LOWER)
		return -E2BIG;
	tree->upper_fd = upper_fd;
	tree->lower_count = lower_count;
	memcpy(tree->lower_fds, lower_fds, lower_count * sizeof(*lower_fds));
	if (fstat(upper_fd, &info) < 0)
		return -errno;
	root.mode = info.st_mode;
	root.uid = info.st_uid;
	root.gid = info.st_gid;
	root.mtime = info.st_mtim.tv_sec;
	root.mtime_nsec = (uint32_t)info.st_mtim.tv_nsec;
	return add_node(tree, "", &root);
}

void vial_layer_tree_clear(struct vial_layer_tree *tree)
{
	free(tree->nodes);
	free(tree->names);
	free(tree->links);
	memset(tree, 0, sizeof(*tree));
}

int vial_layer_tree_walk(struct vial_layer_tree *tree)
{
	while (tree->walked < tree->count && !S_ISDIR(tree->nodes[tree->walked].mode))
		tree->walked++;
	if (tree->walked < tree->count) {
		int result = read_directory(tree, tree->walked);

		if (result < 0)
			return result;
		tree->walked++;
	}
	return tree->walked < tree->count;
}
