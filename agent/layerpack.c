/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests: `layer-pack UPPER [LOWER…]` packs a folder on the host as the operation `layer` packs the guest's disk. Not part of the agent. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "erofs.h"

static int fail(const char *step, int result)
{
	fprintf(stderr, "%s: %s\n", step, strerror(-result));
	return 1;
}

int main(int argc, char **argv)
{
	static uint8_t buffer[5 * VIAL_EROFS_BLOCK];
	int fds[VIAL_LAYER_MAX_LOWER + 1];
	struct vial_layer_tree tree;
	struct vial_erofs erofs;
	uint64_t total = 0;
	ssize_t got;
	int result;

	if (argc < 2 || argc > (int)VIAL_LAYER_MAX_LOWER + 2)
		return 2;
	for (int i = 1; i < argc; i++) {
		fds[i - 1] = open(argv[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fds[i - 1] < 0) {
			perror(argv[i]);
			return 1;
		}
	}
	result = vial_layer_tree_init(&tree, fds[0], fds + 1, (size_t)argc - 2);
	while (result == 0 && (result = vial_layer_tree_walk(&tree)) > 0)
		result = 0;
	if (result < 0 || (result = vial_erofs_init(&erofs, &tree)) < 0)
		return fail("walk", result);
	while ((got = vial_erofs_read(&erofs, buffer, sizeof(buffer))) > 0) {
		total += (uint64_t)got;
		if (write(STDOUT_FILENO, buffer, (size_t)got) != got) {
			perror("write");
			return 1;
		}
	}
	if (got < 0)
		return fail("read", (int)got);
	fprintf(stderr, "%llu bytes, %u entries, %u left out\n", (unsigned long long)total, tree.count, tree.skipped);
	result = total == erofs.size_bytes ? 0 : 3;
	vial_erofs_clear(&erofs);
	vial_layer_tree_clear(&tree);
	return result;
}
