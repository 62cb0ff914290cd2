/* SPDX-License-Identifier: Apache-2.0 */
/* See disk.h. */
#include "disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "files.h"

static int pread_all(int fd, uint8_t *out, size_t length, uint64_t offset)
{
	while (length > 0) {
		ssize_t part = pread(fd, out, length, (off_t)offset);

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return -errno;
		if (part == 0) { /* behind the end of a sparse layer or of the base: zeros */
			memset(out, 0, length);
			return 0;
		}
		out += part;
		length -= (size_t)part;
		offset += (uint64_t)part;
	}
	return 0;
}

static int pwrite_all(int fd, const uint8_t *data, size_t length, uint64_t offset)
{
	while (length > 0) {
		ssize_t part = pwrite(fd, data, length, (off_t)offset);

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return -errno;
		data += part;
		length -= (size_t)part;
		offset += (uint64_t)part;
	}
	return 0;
}

static int base_size(int fd, uint64_t *out_bytes)
{
	off_t end = lseek(fd, 0, SEEK_END); /* works for block devices too */

	if (end < 0)
		return -errno;
	*out_bytes = (uint64_t)end & ~511ull;
	return end < 512 ? -EINVAL : 0;
}

int vial_disk_init(struct vial_disk *disk, int base_fd, int overlay_fd, uint64_t size_bytes)
{
	int result;

	*disk = (struct vial_disk){ .base_fd = base_fd };
	if (overlay_fd >= 0)
		disk->layers[disk->layer_count++] = overlay_fd;
	result = base_size(base_fd, &disk->base_bytes);
	if (result < 0)
		return result;
	disk->size_bytes = size_bytes ? size_bytes & ~511ull : disk->base_bytes;
	if (disk->size_bytes < disk->base_bytes || disk->size_bytes > VIAL_DISK_MAX_BYTES)
		return -EINVAL;
	disk->clusters = (disk->size_bytes + VIAL_DISK_CLUSTER_BYTES - 1) / VIAL_DISK_CLUSTER_BYTES;
	if (overlay_fd < 0)
		return 0;
	/* A mapping, not the heap: untouched parts of a big disk's map cost nothing, also after a fork. */
	disk->map = mmap(NULL, disk->clusters, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (disk->map == MAP_FAILED) {
		disk->map = NULL;
		return -ENOMEM;
	}
	return 0;
}

int vial_disk_add_frozen(struct vial_disk *disk, int layer_fd, const uint8_t *bitmap, size_t bitmap_bytes)
{
	if (disk->layer_count != 1 || bitmap_bytes != (disk->clusters + 7) / 8) {
		close(layer_fd);
		return -EINVAL;
	}
	disk->layers[1] = disk->layers[0];
	disk->layers[0] = layer_fd;
	disk->layer_count = 2;
	for (uint64_t cluster = 0; cluster < disk->clusters; cluster++) {
		if (bitmap[cluster / 8] >> (cluster % 8) & 1)
			disk->map[cluster] = 1;
	}
	return 0;
}

void vial_disk_close(struct vial_disk *disk)
{
	vial_file_close(&disk->base_fd);
	for (unsigned i = 0; i < disk->layer_count; i++)
		close(disk->layers[i]);
	if (disk->map)
		munmap(disk->map, disk->clusters);
	*disk = (struct vial_disk){ .base_fd = -1 };
}

bool vial_disk_is_read_only(const struct vial_disk *disk)
{
	return disk->layer_count == 0;
}

static bool is_inside(const struct vial_disk *disk, uint64_t offset, size_t length)
{
	return offset <= disk->size_bytes && length <= disk->size_bytes - offset;
}

static unsigned layer_of(const struct vial_disk *disk, uint64_t cluster)
{
	return disk->map ? disk->map[cluster] : 0;
}

static int read_layer(struct vial_disk *disk, unsigned layer, uint64_t offset, uint8_t *out, size_t length)
{
	if (layer > disk->layer_count)
		return -EIO;
	return pread_all(layer == 0 ? disk->base_fd : disk->layers[layer - 1], out, length, offset);
}

int vial_disk_read(struct vial_disk *disk, uint64_t offset, void *out, size_t length)
{
	uint8_t *bytes = out;

	if (!is_inside(disk, offset, length))
		return -EINVAL;
	while (length > 0) {
		uint64_t cluster = offset / VIAL_DISK_CLUSTER_BYTES;
		unsigned layer = layer_of(disk, cluster);
		size_t run = VIAL_DISK_CLUSTER_BYTES - offset % VIAL_DISK_CLUSTER_BYTES;
		int result;

		/* Neighbours in the same layer are one read. */
		while (run < length && layer_of(disk, ++cluster) == layer)
			run += VIAL_DISK_CLUSTER_BYTES;
		if (run > length)
			run = length;
		result = read_layer(disk, layer, offset, bytes, run);
		if (result < 0)
			return result;
		bytes += run;
		offset += run;
		length -= run;
	}
	return 0;
}

/* Part of a cluster that the top layer does not hold yet: the rest of it has to come up too. */
static int write_partly(struct vial_disk *disk, uint64_t offset, const uint8_t *data, size_t length)
{
	uint8_t cluster[VIAL_DISK_CLUSTER_BYTES];
	uint64_t start = offset - offset % VIAL_DISK_CLUSTER_BYTES;
	int result = read_layer(disk, layer_of(disk, start / VIAL_DISK_CLUSTER_BYTES), start, cluster, sizeof(cluster));

	if (result < 0)
		return result;
	memcpy(cluster + (offset - start), data, length);
	return pwrite_all(disk->layers[disk->layer_count - 1], cluster, sizeof(cluster), start);
}

int vial_disk_write(struct vial_disk *disk, uint64_t offset, const void *data, size_t length)
{
	const uint8_t *bytes = data;
	unsigned top = disk->layer_count;

	if (top == 0)
		return -EROFS;
	if (!is_inside(disk, offset, length))
		return -EINVAL;
	disk->is_top_written = true;
	while (length > 0) {
		uint64_t cluster = offset / VIAL_DISK_CLUSTER_BYTES;
		size_t within = offset % VIAL_DISK_CLUSTER_BYTES;
		size_t part = VIAL_DISK_CLUSTER_BYTES - within;
		int result;

		if (within == 0 && length >= VIAL_DISK_CLUSTER_BYTES)
			part = length - length % VIAL_DISK_CLUSTER_BYTES; /* whole clusters: one write */
		else if (part > length)
			part = length;
		if (part % VIAL_DISK_CLUSTER_BYTES == 0 || disk->map[cluster] == top)
			result = pwrite_all(disk->layers[top - 1], bytes, part, offset);
		else
			result = write_partly(disk, offset, bytes, part);
		if (result < 0)
			return result;
		for (uint64_t end = (offset + part - 1) / VIAL_DISK_CLUSTER_BYTES; cluster <= end; cluster++)
			disk->map[cluster] = (uint8_t)top;
		bytes += part;
		offset += part;
		length -= part;
	}
	return 0;
}

int vial_disk_flush(struct vial_disk *disk)
{
	/* The private layer dies with the sandbox and is copied by a snapshot through this machine's page cache: there is no crash
	 * after which anybody would read it, so the guest's barriers cost nothing. */
	return disk->base_fd >= 0 ? 0 : -EIO;
}

int vial_disk_flatten(struct vial_disk *disk, int fd, uint64_t *out_bytes)
{
	uint8_t cluster[VIAL_DISK_CLUSTER_BYTES];
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < disk->clusters; i++) {
		uint64_t offset = i * VIAL_DISK_CLUSTER_BYTES;
		int result;

		if (layer_of(disk, i) == 0)
			continue;
		result = read_layer(disk, layer_of(disk, i), offset, cluster, sizeof(cluster));
		if (result == 0)
			result = pwrite_all(fd, cluster, sizeof(cluster), offset);
		if (result < 0)
			return result;
		bytes += sizeof(cluster);
	}
	*out_bytes = bytes;
	return 0;
}

/*
 * Brings everything private into the top layer and lets go of those below. The top is ours alone, and only clusters that it does not hold are
 * written, so relatives and a snapshot's writer, who share the layers or have a map of their own, read on what they read before.
 */
static int merge_layers(struct vial_disk *disk)
{
	unsigned top = disk->layer_count;
	uint8_t cluster[VIAL_DISK_CLUSTER_BYTES];

	for (uint64_t i = 0; i < disk->clusters; i++) {
		uint64_t offset = i * VIAL_DISK_CLUSTER_BYTES;
		int result;

		if (disk->map[i] == 0 || disk->map[i] == top)
			continue;
		result = read_layer(disk, disk->map[i], offset, cluster, sizeof(cluster));
		if (result == 0)
			result = pwrite_all(disk->layers[top - 1], cluster, sizeof(cluster), offset);
		if (result < 0)
			return result;
		disk->map[i] = (uint8_t)top;
	}
	for (uint64_t i = 0; i < disk->clusters; i++)
		disk->map[i] = disk->map[i] ? 1 : 0;
	for (unsigned i = 0; i < top - 1; i++)
		close(disk->layers[i]);
	disk->layers[0] = disk->layers[top - 1];
	disk->layer_count = 1;
	return 0;
}

int vial_disk_freeze(struct vial_disk *disk, int fd)
{
	int result = 0;

	if (disk->layer_count == 0)
		return -EROFS;
	if (!disk->is_top_written) {
		close(fd);
		return 0;
	}
	if (disk->layer_count == VIAL_DISK_MAX_LAYERS)
		result = merge_layers(disk);
	if (result < 0)
		return result;
	disk->layers[disk->layer_count++] = fd;
	disk->is_top_written = false;
	return 0;
}

int vial_disk_replace_top(struct vial_disk *disk, int fd)
{
	if (disk->layer_count == 0)
		return -EROFS;
	close(disk->layers[disk->layer_count - 1]);
	disk->layers[disk->layer_count - 1] = fd;
	return 0;
}

void vial_disk_bitmap(const struct vial_disk *disk, uint8_t *out_bitmap)
{
	memset(out_bitmap, 0, (disk->clusters + 7) / 8);
	for (uint64_t i = 0; i < disk->clusters; i++) {
		if (layer_of(disk, i))
			out_bitmap[i / 8] |= (uint8_t)(1u << (i % 8));
	}
}

uint64_t vial_disk_private_bytes(const struct vial_disk *disk)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; disk->map && i < disk->clusters; i++)
		bytes += disk->map[i] ? VIAL_DISK_CLUSTER_BYTES : 0;
	return bytes;
}
