/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over files and directories given as arguments: the corpus as an ordinary test, without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static unsigned count;

static int replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = malloc(1 << 20);
	size_t size;

	if (!file || !bytes) {
		perror(path);
		return 1;
	}
	size = fread(bytes, 1, 1 << 20, file);
	fclose(file);
	/* An exact copy, so that a sanitizer sees the first byte read beyond it. */
	bytes = realloc(bytes, size ? size : 1);
	LLVMFuzzerTestOneInput(bytes, size);
	free(bytes);
	count++;
	return 0;
}

static int replay(const char *path)
{
	struct dirent *entry;
	struct stat info;
	DIR *directory;
	int result = 0;

	if (stat(path, &info) < 0 || !S_ISDIR(info.st_mode))
		return replay_file(path);
	directory = opendir(path);
	while (directory && (entry = readdir(directory)) && result == 0) {
		char below[4096];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		result = replay_file(below);
	}
	if (directory)
		closedir(directory);
	return result;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (replay(argv[i]) != 0)
			return 1;
	}
	printf("%u inputs\n", count);
	return count == 0;
}
