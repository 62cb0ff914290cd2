/* SPDX-License-Identifier: Apache-2.0 */
/* See device.h. Registers by number as in the specification's table 4.1; the legacy interface (version 1) is not spoken. */
#include "device.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../files.h"

enum {
	REG_MAGIC = 0x00,
	REG_VERSION = 0x04,
	REG_DEVICE_ID = 0x08,
	REG_VENDOR_ID = 0x0c,
	REG_DEVICE_FEATURES = 0x10,
	REG_DEVICE_FEATURES_SEL = 0x14,
	REG_DRIVER_FEATURES = 0x20,
	REG_DRIVER_FEATURES_SEL = 0x24,
	REG_QUEUE_SEL = 0x30,
	REG_QUEUE_NUM_MAX = 0x34,
	REG_QUEUE_NUM = 0x38,
	REG_QUEUE_READY = 0x44,
	REG_QUEUE_NOTIFY = VIAL_VIRTIO_NOTIFY_OFFSET,
	REG_INTERRUPT_STATUS = 0x60,
	REG_INTERRUPT_ACK = 0x64,
	REG_STATUS = 0x70,
	REG_QUEUE_DESC_LOW = 0x80,
	REG_QUEUE_DESC_HIGH = 0x84,
	REG_QUEUE_AVAIL_LOW = 0x90,
	REG_QUEUE_AVAIL_HIGH = 0x94,
	REG_QUEUE_USED_LOW = 0xa0,
	REG_QUEUE_USED_HIGH = 0xa4,
	REG_SHM_LEN_LOW = 0xb0,
	REG_SHM_BASE_HIGH = 0xbc,
	REG_CONFIG_GENERATION = 0xfc,
	REG_CONFIG = 0x100,
};

#define MAGIC 0x74726976u  /* "virt" */
#define VENDOR 0x4c414956u /* "VIAL" */
#define INTERRUPT_USED 1u
#define INTERRUPT_CONFIG 2u
#define STATUS_KNOWN 0xcfu

struct saved {
	uint32_t type;
	uint32_t status;
	uint64_t offered_features;
	uint64_t driver_features;
	uint32_t features_select;
	uint32_t driver_features_select;
	uint32_t queue_select;
	uint32_t interrupt_status;
	uint32_t config_generation;
	uint32_t queue_count;
	struct {
		uint64_t descriptors;
		uint64_t available;
		uint64_t used;
		uint16_t size;
		uint16_t is_ready;
		uint16_t next_available;
		uint16_t next_used;
	} queues[VIAL_VIRTIO_MAX_QUEUES];
};

static void reset(struct vial_virtio *device)
{
	device->status = 0;
	device->driver_features = 0;
	device->features_select = device->driver_features_select = device->queue_select = 0;
	atomic_store(&device->interrupt_status, 0);
	for (unsigned i = 0; i < VIAL_VIRTIO_MAX_QUEUES; i++)
		vial_queue_reset(&device->queues[i], i < device->ops->queue_count ? device->ops->queue_size : 0);
	if (device->ops->reset)
		device->ops->reset(device);
}

void vial_virtio_init(struct vial_virtio *device, const struct vial_virtio_ops *ops, void *self, const struct vial_memory *memory, uint64_t features)
{
	*device = (struct vial_virtio){
		.ops = ops,
		.self = self,
		.memory = memory,
		.offered_features = features | VIAL_VIRTIO_F_VERSION_1,
		.interrupt_fd = -1,
		.notify_fd = -1,
	};
	pthread_mutex_init(&device->lock, NULL);
	reset(device);
}

void vial_virtio_close(struct vial_virtio *device)
{
	if (device->ops && device->ops->close)
		device->ops->close(device);
	vial_file_close(&device->interrupt_fd);
	vial_file_close(&device->notify_fd);
}

bool vial_virtio_has(const struct vial_virtio *device, uint64_t feature)
{
	return (device->driver_features & feature) == feature;
}

bool vial_virtio_is_running(const struct vial_virtio *device)
{
	return (device->status & (VIAL_VIRTIO_STATUS_DRIVER_OK | VIAL_VIRTIO_STATUS_NEEDS_RESET)) == VIAL_VIRTIO_STATUS_DRIVER_OK;
}

static void interrupt(struct vial_virtio *device, unsigned reason)
{
	atomic_fetch_or(&device->interrupt_status, reason);
	atomic_fetch_add(&device->interrupts, 1);
	vial_file_post(device->interrupt_fd);
}

void vial_virtio_remind(struct vial_virtio *device)
{
	if (atomic_load(&device->interrupt_status))
		vial_file_post(device->interrupt_fd);
}

void vial_virtio_config_changed(struct vial_virtio *device)
{
	device->config_generation++;
	interrupt(device, INTERRUPT_CONFIG);
}

/* The driver did what no driver does. It hears so, and the device is deaf until it is reset. */
static void mark_broken(struct vial_virtio *device)
{
	device->status |= VIAL_VIRTIO_STATUS_NEEDS_RESET;
	vial_virtio_config_changed(device);
}

static uint32_t read_register(struct vial_virtio *device, uint32_t offset)
{
	const struct vial_queue *queue = device->queue_select < device->ops->queue_count ? &device->queues[device->queue_select] : NULL;

	switch (offset) {
	case REG_MAGIC:
		return MAGIC;
	case REG_VERSION:
		return 2;
	case REG_DEVICE_ID:
		return device->ops->type;
	case REG_VENDOR_ID:
		return VENDOR;
	case REG_DEVICE_FEATURES:
		return device->features_select > 1 ? 0 : (uint32_t)(device->offered_features >> (32 * device->features_select));
	case REG_QUEUE_NUM_MAX:
		return queue ? queue->max_size : 0;
	case REG_QUEUE_READY:
		return queue ? queue->is_ready : 0;
	case REG_INTERRUPT_STATUS:
		return atomic_load(&device->interrupt_status);
	case REG_STATUS:
		return device->status;
	case REG_CONFIG_GENERATION:
		return device->config_generation;
	default:
		/* No shared memory regions: length and base read as all ones. */
		return offset >= REG_SHM_LEN_LOW && offset <= REG_SHM_BASE_HIGH ? UINT32_MAX : 0;
	}
}

void vial_virtio_read(struct vial_virtio *device, uint32_t offset, uint8_t *out, uint32_t length)
{
	memset(out, 0, length);
	if (offset >= VIAL_VIRTIO_MMIO_BYTES || length > VIAL_VIRTIO_MMIO_BYTES - offset)
		return;
	pthread_mutex_lock(&device->lock);
	if (offset >= REG_CONFIG) {
		if (device->ops->read_config)
			device->ops->read_config(device, offset - REG_CONFIG, out, length);
	} else if (length == 4 && offset % 4 == 0) {
		uint32_t value = read_register(device, offset);

		memcpy(out, &value, sizeof(value));
	}
	pthread_mutex_unlock(&device->lock);
}

static void set_half(uint64_t *address, bool is_high, uint32_t value)
{
	if (is_high)
		*address = (*address & UINT32_MAX) | (uint64_t)value << 32;
	else
		*address = (*address & ~(uint64_t)UINT32_MAX) | value;
}

/* Only between FEATURES_OK and DRIVER_OK, and only while the queue is not ready: a queue that is in use never changes its shape. */
static void write_queue_register(struct vial_virtio *device, uint32_t offset, uint32_t value)
{
	struct vial_queue *queue;

	if (device->queue_select >= device->ops->queue_count || !(device->status & VIAL_VIRTIO_STATUS_FEATURES_OK) ||
	    (device->status & VIAL_VIRTIO_STATUS_DRIVER_OK))
		return;
	queue = &device->queues[device->queue_select];
	if (offset == REG_QUEUE_READY) {
		queue->is_ready = value == 1 && vial_queue_check(queue, device->memory) == 0;
		return;
	}
	if (queue->is_ready)
		return;
	switch (offset) {
	case REG_QUEUE_NUM:
		queue->size = value > queue->max_size ? 0 : (uint16_t)value;
		break;
	case REG_QUEUE_DESC_LOW:
	case REG_QUEUE_DESC_HIGH:
		set_half(&queue->descriptors, offset == REG_QUEUE_DESC_HIGH, value);
		break;
	case REG_QUEUE_AVAIL_LOW:
	case REG_QUEUE_AVAIL_HIGH:
		set_half(&queue->available, offset == REG_QUEUE_AVAIL_HIGH, value);
		break;
	case REG_QUEUE_USED_LOW:
	case REG_QUEUE_USED_HIGH:
		set_half(&queue->used, offset == REG_QUEUE_USED_HIGH, value);
		break;
	}
}

static void write_status(struct vial_virtio *device, uint32_t value)
{
	value &= STATUS_KNOWN;
	if (value == 0) {
		reset(device);
		return;
	}
	/* Bits are only ever added; ours are not the driver's to set. */
	value = device->status | (value & ~VIAL_VIRTIO_STATUS_NEEDS_RESET);
	if ((value & VIAL_VIRTIO_STATUS_FEATURES_OK) && !(device->status & VIAL_VIRTIO_STATUS_FEATURES_OK) &&
	    ((device->driver_features & ~device->offered_features) || !vial_virtio_has(device, VIAL_VIRTIO_F_VERSION_1)))
		value &= ~VIAL_VIRTIO_STATUS_FEATURES_OK;
	if ((value & VIAL_VIRTIO_STATUS_DRIVER_OK) && !(value & VIAL_VIRTIO_STATUS_FEATURES_OK))
		value &= ~VIAL_VIRTIO_STATUS_DRIVER_OK;
	device->status = value;
	/* Buffers may be waiting already, and so may the host's side. */
	if (vial_virtio_is_running(device))
		vial_file_post(device->notify_fd);
}

static void write_register(struct vial_virtio *device, uint32_t offset, uint32_t value)
{
	switch (offset) {
	case REG_DEVICE_FEATURES_SEL:
		device->features_select = value;
		break;
	case REG_DRIVER_FEATURES:
		if (device->driver_features_select < 2 && !(device->status & VIAL_VIRTIO_STATUS_FEATURES_OK))
			set_half(&device->driver_features, device->driver_features_select == 1, value);
		break;
	case REG_DRIVER_FEATURES_SEL:
		device->driver_features_select = value;
		break;
	case REG_QUEUE_SEL:
		device->queue_select = value;
		break;
	case REG_QUEUE_NOTIFY:
		vial_file_post(device->notify_fd);
		break;
	case REG_INTERRUPT_ACK:
		atomic_fetch_and(&device->interrupt_status, ~value);
		break;
	case REG_STATUS:
		write_status(device, value);
		break;
	default:
		write_queue_register(device, offset, value);
	}
}

void vial_virtio_write(struct vial_virtio *device, uint32_t offset, const uint8_t *data, uint32_t length)
{
	uint32_t value;

	/* None of our devices has a configuration the driver may write. */
	if (offset >= REG_CONFIG || length != 4 || offset % 4 != 0)
		return;
	memcpy(&value, data, sizeof(value));
	pthread_mutex_lock(&device->lock);
	write_register(device, offset, value);
	pthread_mutex_unlock(&device->lock);
}

int vial_virtio_finish(struct vial_virtio *device, unsigned queue, uint16_t head, uint32_t written_bytes)
{
	int result = vial_queue_push(&device->queues[queue], device->memory, head, written_bytes);

	if (result == 0 && vial_queue_wants_interrupt(&device->queues[queue], device->memory))
		interrupt(device, INTERRUPT_USED);
	return result;
}

void vial_virtio_serve(struct vial_virtio *device)
{
	pthread_mutex_lock(&device->lock);
	for (unsigned i = 0; i < device->ops->queue_count && vial_virtio_is_running(device); i++) {
		if (device->queues[i].is_ready && device->ops->serve(device, i) < 0)
			mark_broken(device);
	}
	pthread_mutex_unlock(&device->lock);
}

void vial_virtio_serve_host(struct vial_virtio *device)
{
	pthread_mutex_lock(&device->lock);
	if (device->ops->on_host && device->ops->on_host(device) < 0)
		mark_broken(device);
	pthread_mutex_unlock(&device->lock);
}

void vial_virtio_save(struct vial_virtio *device, uint32_t index, struct vial_state_writer *writer)
{
	struct saved *saved = vial_state_reserve(writer, VIAL_STATE_VIRTIO, index, sizeof(*saved));

	if (!saved)
		return;
	saved->type = device->ops->type;
	saved->status = device->status;
	saved->offered_features = device->offered_features;
	saved->driver_features = device->driver_features;
	saved->features_select = device->features_select;
	saved->driver_features_select = device->driver_features_select;
	saved->queue_select = device->queue_select;
	saved->interrupt_status = atomic_load(&device->interrupt_status);
	saved->config_generation = device->config_generation;
	saved->queue_count = device->ops->queue_count;
	for (unsigned i = 0; i < device->ops->queue_count; i++) {
		const struct vial_queue *queue = &device->queues[i];

		saved->queues[i].descriptors = queue->descriptors;
		saved->queues[i].available = queue->available;
		saved->queues[i].used = queue->used;
		saved->queues[i].size = queue->size;
		saved->queues[i].is_ready = queue->is_ready;
		saved->queues[i].next_available = queue->next_available;
		saved->queues[i].next_used = queue->next_used;
	}
	if (device->ops->save)
		device->ops->save(device, index, writer);
}

static int load_queues(struct vial_virtio *device, const struct saved *saved)
{
	for (unsigned i = 0; i < device->ops->queue_count; i++) {
		struct vial_queue *queue = &device->queues[i];

		vial_queue_reset(queue, device->ops->queue_size);
		queue->descriptors = saved->queues[i].descriptors;
		queue->available = saved->queues[i].available;
		queue->used = saved->queues[i].used;
		queue->size = saved->queues[i].size;
		queue->is_ready = saved->queues[i].is_ready == 1;
		queue->next_available = saved->queues[i].next_available;
		queue->next_used = saved->queues[i].next_used;
		if (queue->is_ready && vial_queue_check(queue, device->memory) < 0)
			return -EPROTO;
	}
	return 0;
}

int vial_virtio_load(struct vial_virtio *device, uint32_t index, const struct vial_state *state)
{
	struct saved saved;

	if (vial_state_get(state, VIAL_STATE_VIRTIO, index, &saved, sizeof(saved)) < 0 || saved.type != device->ops->type ||
	    saved.queue_count != device->ops->queue_count || saved.offered_features != device->offered_features || (saved.status & ~STATUS_KNOWN) ||
	    ((saved.status & VIAL_VIRTIO_STATUS_FEATURES_OK) && (saved.driver_features & ~saved.offered_features)))
		return -EPROTO;
	if (load_queues(device, &saved) < 0)
		return -EPROTO;
	device->status = saved.status;
	device->driver_features = saved.driver_features;
	device->features_select = saved.features_select;
	device->driver_features_select = saved.driver_features_select;
	device->queue_select = saved.queue_select;
	device->config_generation = saved.config_generation;
	atomic_store(&device->interrupt_status, saved.interrupt_status);
	return device->ops->load ? device->ops->load(device, index, state) : 0;
}
