/* SPDX-License-Identifier: Apache-2.0 */
/* See blk.h; virtio 1.2, 5.2. A read-only disk says so with its feature bit and refuses writes besides. */
#include "blk.h"

#include <errno.h>
#include <string.h>

#define F_SEG_MAX (1ull << 2)
#define F_READ_ONLY (1ull << 5)
#define F_BLK_SIZE (1ull << 6)
#define F_FLUSH (1ull << 9)

enum { TYPE_READ = 0, TYPE_WRITE = 1, TYPE_FLUSH = 4, TYPE_GET_ID = 8 };
enum { STATUS_OK = 0, STATUS_IO_ERROR = 1, STATUS_UNSUPPORTED = 2 };

#define SECTOR_BYTES 512u
/* All of the queue but the request's header and its status byte. */
#define SEGMENTS_MAX (VIAL_QUEUE_MAX_SIZE - 2u)

struct request_header {
	uint32_t type;
	uint32_t reserved;
	uint64_t sector;
};

struct config {
	uint64_t capacity;
	uint32_t size_max;
	uint32_t seg_max;
	uint16_t cylinders;
	uint8_t heads;
	uint8_t sectors;
	uint32_t blk_size;
};

/* Moves `length` bytes between the disk and the chain's buffers, from `skip` bytes into the readable or writable part. */
static int transfer(struct vial_blk *blk, const struct vial_chain *chain, uint64_t offset, uint32_t skip, uint32_t length, bool is_write)
{
	const struct vial_buffer *buffer = chain->buffers + (is_write ? 0 : chain->readable_count);
	unsigned count = is_write ? chain->readable_count : chain->writable_count;

	for (; count > 0 && length > 0; count--, buffer++) {
		uint32_t part;
		int result;

		if (skip >= buffer->length) {
			skip -= buffer->length;
			continue;
		}
		part = buffer->length - skip < length ? buffer->length - skip : length;
		result = is_write ? vial_disk_write(&blk->disk, offset, buffer->data + skip, part)
		                  : vial_disk_read(&blk->disk, offset, buffer->data + skip, part);
		if (result < 0)
			return result;
		offset += part;
		length -= part;
		skip = 0;
	}
	return 0;
}

static int read_or_write(struct vial_blk *blk, const struct vial_chain *chain, const struct request_header *header, uint32_t length)
{
	bool is_write = header->type == TYPE_WRITE;

	if (length % SECTOR_BYTES || header->sector > VIAL_DISK_MAX_BYTES / SECTOR_BYTES)
		return -EINVAL;
	if (is_write) {
		blk->writes++;
		blk->written_bytes += length;
	} else {
		blk->reads++;
		blk->read_bytes += length;
	}
	return transfer(blk, chain, header->sector * SECTOR_BYTES, is_write ? sizeof(*header) : 0, length, is_write);
}

/* Returns how many bytes were written to the guest, the status byte included; the chain has room for at least that byte. */
static uint32_t execute(struct vial_blk *blk, const struct vial_chain *chain, const struct request_header *header)
{
	uint32_t room = chain->writable_bytes - 1;
	uint32_t written = 0;
	uint8_t status = STATUS_OK;
	int result = 0;

	switch (header->type) {
	case TYPE_READ:
		result = read_or_write(blk, chain, header, room);
		written = result == 0 ? room : 0;
		break;
	case TYPE_WRITE:
		result = read_or_write(blk, chain, header, chain->readable_bytes - (uint32_t)sizeof(*header));
		break;
	case TYPE_FLUSH:
		result = vial_disk_flush(&blk->disk);
		break;
	case TYPE_GET_ID:
		written = vial_chain_write(chain, 0, blk->serial, room < sizeof(blk->serial) ? room : sizeof(blk->serial));
		break;
	default:
		status = STATUS_UNSUPPORTED;
	}
	if (result < 0)
		status = STATUS_IO_ERROR;
	/* The status is the last writable byte, whatever lies before it. */
	vial_chain_write(chain, room, &status, 1);
	return written + 1;
}

static int serve(struct vial_virtio *device, unsigned queue)
{
	struct vial_blk *blk = device->self;
	struct vial_chain chain;
	int result;

	while ((result = vial_queue_pop(&device->queues[queue], device->memory, &chain)) > 0) {
		struct request_header header;

		if (chain.writable_bytes == 0 || vial_chain_read(&chain, 0, &header, sizeof(header)) != sizeof(header))
			return -EPROTO;
		result = vial_virtio_finish(device, queue, chain.head, execute(blk, &chain, &header));
		if (result < 0)
			break;
	}
	return result;
}

static void read_config(struct vial_virtio *device, uint32_t offset, uint8_t *out, uint32_t length)
{
	const struct vial_blk *blk = device->self;
	struct config config = {
		.capacity = blk->disk.size_bytes / SECTOR_BYTES,
		.seg_max = SEGMENTS_MAX,
		.blk_size = SECTOR_BYTES,
	};

	if (offset < sizeof(config))
		memcpy(out, (uint8_t *)&config + offset, length < sizeof(config) - offset ? length : sizeof(config) - offset);
}

static void save(struct vial_virtio *device, uint32_t index, struct vial_state_writer *writer)
{
	const struct vial_blk *blk = device->self;
	uint8_t *bitmap;

	if (vial_disk_is_read_only(&blk->disk))
		return;
	bitmap = vial_state_reserve(writer, VIAL_STATE_DEVICE, index, (blk->disk.clusters + 7) / 8);
	if (bitmap)
		vial_disk_bitmap(&blk->disk, bitmap);
}

/* The bitmap is used where the layer is opened (build.c); here only its presence is checked. */
static int load(struct vial_virtio *device, uint32_t index, const struct vial_state *state)
{
	const struct vial_blk *blk = device->self;
	bool has_map = vial_state_find(state, VIAL_STATE_DEVICE, index, NULL) != NULL;

	return has_map == !vial_disk_is_read_only(&blk->disk) ? 0 : -EPROTO;
}

static void close_blk(struct vial_virtio *device)
{
	struct vial_blk *blk = device->self;

	vial_disk_close(&blk->disk);
}

static const struct vial_virtio_ops ops = {
	.name = "blk",
	.type = VIAL_VIRTIO_BLOCK,
	.queue_count = 1,
	.queue_size = VIAL_QUEUE_MAX_SIZE,
	.serve = serve,
	.read_config = read_config,
	.save = save,
	.load = load,
	.close = close_blk,
};

void vial_blk_init(struct vial_virtio *device, struct vial_blk *blk, const struct vial_memory *memory, const char *serial)
{
	uint64_t features = F_SEG_MAX | F_BLK_SIZE | F_FLUSH;

	memset(blk->serial, 0, sizeof(blk->serial));
	memcpy(blk->serial, serial, strnlen(serial, sizeof(blk->serial)));
	if (vial_disk_is_read_only(&blk->disk))
		features |= F_READ_ONLY;
	vial_virtio_init(device, &ops, blk, memory, features);
}
