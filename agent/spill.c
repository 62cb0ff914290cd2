/* SPDX-License-Identifier: Apache-2.0 */
/* See spill.h. */
#include "spill.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One for each user: what root has made the others could not write into. */
#define DIRECTORY "/tmp/.vial-output-"
#define DIRECTORY_BYTES (sizeof(DIRECTORY) + 10)
#define MEMORY_BYTES (64u * 1024u)
/* Older ones are removed. */
#define MAX_FILES 8

static const struct {
	const char *suffix;
	uint64_t max_bytes;
	bool is_lines;
} kinds[] = {
	[VIAL_SPILL_OUTPUT] = { ".txt", 256ull * 1024 * 1024, false }, [VIAL_SPILL_RESULTS] = { ".results.jsonl", UINT64_MAX, true }, /* as the disk
	                                                                                                                                 allows */
};

struct vial_spill {
	enum vial_spill_kind kind;
	char directory[DIRECTORY_BYTES];
	char path[DIRECTORY_BYTES + 96];
	struct vial_user user;
	uint8_t *bytes; /* until there is a file */
	size_t size;
	uint64_t written;
	int fd; /* -1: not yet, or no more */
	bool is_broken;
};

struct kept_file {
	char path[sizeof(((struct vial_spill *)0)->path)];
	struct vial_user user;
};

static struct kept_file kept[2][MAX_FILES];
static unsigned next_kept[2];

struct vial_spill *vial_spill_new(enum vial_spill_kind kind, const char *execution_id, const struct vial_user *user)
{
	struct vial_spill *spill = calloc(1, sizeof(*spill));

	if (!spill)
		return NULL;
	spill->kind = kind;
	snprintf(spill->directory, sizeof(spill->directory), DIRECTORY "%u", (unsigned)user->uid);
	snprintf(spill->path, sizeof(spill->path), "%s/%.64s%s", spill->directory, execution_id, kinds[kind].suffix);
	spill->user = *user;
	spill->fd = -1;
	return spill;
}

/* The directory is the user's, who may have put anything in our place: nothing is followed, and only with the user's rights. */
static int open_file(const struct vial_spill *spill)
{
	int fd;

	if (vial_user_enter(&spill->user) < 0)
		return -1;
	mkdir(spill->directory, 0700);
	fd = open(spill->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	vial_user_leave();
	return fd;
}

static void write_out(struct vial_spill *spill, const uint8_t *bytes, size_t size_bytes)
{
	uint64_t before = spill->written;

	while (size_bytes > 0 && !spill->is_broken) {
		ssize_t count = spill->written + size_bytes <= kinds[spill->kind].max_bytes ? write(spill->fd, bytes, size_bytes) : -1;

		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0) {
			/* The disk or the file is full: what is there stays. */
			spill->is_broken = true;
			if (kinds[spill->kind].is_lines)
				(void)!ftruncate(spill->fd, (off_t)before);
			return;
		}
		spill->written += (uint64_t)count;
		bytes += count;
		size_bytes -= (size_t)count;
	}
}

static void begin_file(struct vial_spill *spill)
{
	spill->fd = open_file(spill);
	if (spill->fd < 0)
		spill->is_broken = true;
	else
		write_out(spill, spill->bytes, spill->size);
	free(spill->bytes);
	spill->bytes = NULL;
	spill->size = 0;
}

static bool keep_in_memory(struct vial_spill *spill, const uint8_t *bytes, size_t size_bytes)
{
	if (spill->fd >= 0 || spill->size + size_bytes > MEMORY_BYTES)
		return false;
	if (!spill->bytes)
		spill->bytes = malloc(MEMORY_BYTES);
	if (!spill->bytes)
		return false;
	memcpy(spill->bytes + spill->size, bytes, size_bytes);
	spill->size += size_bytes;
	return true;
}

bool vial_spill_add(struct vial_spill *spill, const uint8_t *bytes, size_t size_bytes)
{
	if (!spill || spill->is_broken)
		return false;
	if (keep_in_memory(spill, bytes, size_bytes))
		return true;
	if (spill->fd < 0)
		begin_file(spill);
	if (!spill->is_broken)
		write_out(spill, bytes, size_bytes);
	return !spill->is_broken;
}

static void remove_file(const char *path, const struct vial_user *user)
{
	if (vial_user_enter(user) < 0)
		return;
	unlink(path);
	vial_user_leave();
}

/* The oldest goes, with the rights of the one whose it is. */
static void remember(const struct vial_spill *spill)
{
	unsigned *next = &next_kept[spill->kind];
	struct kept_file *slot = &kept[spill->kind][*next];

	if (slot->path[0])
		remove_file(slot->path, &slot->user);
	memcpy(slot->path, spill->path, sizeof(slot->path));
	slot->user = spill->user;
	*next = (*next + 1) % MAX_FILES;
}

const char *vial_spill_finish(struct vial_spill *spill, bool is_kept)
{
	static char path[sizeof(spill->path)];
	bool has_file;

	if (!spill)
		return NULL;
	/* A small cap may cut what still fits in memory. */
	if (is_kept && spill->fd < 0 && spill->size > 0)
		begin_file(spill);
	has_file = spill->fd >= 0;
	if (has_file)
		close(spill->fd);
	if (has_file && is_kept)
		remember(spill);
	else if (has_file)
		remove_file(spill->path, &spill->user);
	memcpy(path, spill->path, sizeof(path));
	free(spill->bytes);
	free(spill);
	return has_file && is_kept ? path : NULL;
}
