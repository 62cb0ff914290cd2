/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtio device behind the MMIO transport (virtio 1.2, 4.2). The transport is here, what a device does is its ops table: one file each.
 *
 * Threads: registers are read and written by vCPU threads, queues are served by the device thread, each under the device's lock.
 * Life: init, (registers | serve)*, close. Queue registers are frozen once DRIVER_OK is set; only a reset unfreezes them.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue.h"
#include "vmm/state.h"

#define VIAL_VIRTIO_MMIO_BYTES 0x1000u
#define VIAL_VIRTIO_NOTIFY_OFFSET 0x50u
#define VIAL_VIRTIO_MAX_QUEUES 4u

#define VIAL_VIRTIO_F_VERSION_1 (1ull << 32)

#define VIAL_VIRTIO_STATUS_DRIVER_OK 4u
#define VIAL_VIRTIO_STATUS_FEATURES_OK 8u
#define VIAL_VIRTIO_STATUS_NEEDS_RESET 0x40u

enum { VIAL_VIRTIO_NET = 1, VIAL_VIRTIO_BLOCK = 2, VIAL_VIRTIO_CONSOLE = 3, VIAL_VIRTIO_RNG = 4, VIAL_VIRTIO_BALLOON = 5 };

struct vial_virtio;

struct vial_virtio_ops {
	const char *name;
	uint32_t type;
	unsigned queue_count;
	uint16_t queue_size;
	/* Serves what waits in one queue. 0, or -EPROTO when the guest broke the rules. Device thread, locked. */
	int (*serve)(struct vial_virtio *device, unsigned queue);
	/* Optional: the device's configuration space; outside it reads are zero. */
	void (*read_config)(struct vial_virtio *device, uint32_t offset, uint8_t *out, uint32_t length);
	void (*reset)(struct vial_virtio *device);
	/* Optional: host descriptors, n from 0 until -1, at most two; on_host is called when one *becomes* readable (edge). */
	int (*host_fd)(struct vial_virtio *device, unsigned n);
	int (*on_host)(struct vial_virtio *device);
	/* Optional: the device's own part of a snapshot, the section DEVICE of its index. load checks what it gets. */
	void (*save)(struct vial_virtio *device, uint32_t index, struct vial_state_writer *writer);
	int (*load)(struct vial_virtio *device, uint32_t index, const struct vial_state *state);
	void (*close)(struct vial_virtio *device);
};

struct vial_virtio {
	const struct vial_virtio_ops *ops;
	void *self; /* the device's own structure */
	const struct vial_memory *memory;
	uint64_t offered_features;
	uint64_t driver_features;
	uint32_t features_select;
	uint32_t driver_features_select;
	uint32_t queue_select;
	uint32_t status;
	uint32_t config_generation;
	atomic_uint interrupt_status;
	struct vial_queue queues[VIAL_VIRTIO_MAX_QUEUES];
	int interrupt_fd; /* irqfd: one write, one edge */
	int notify_fd;    /* ioeventfd on QueueNotify, of all queues */
	atomic_ulong interrupts;
	pthread_mutex_t lock;
};

void vial_virtio_init(struct vial_virtio *device, const struct vial_virtio_ops *ops, void *self, const struct vial_memory *memory, uint64_t features);
void vial_virtio_close(struct vial_virtio *device);

/* Register access by a vCPU thread; `offset` is within the device's page. */
void vial_virtio_read(struct vial_virtio *device, uint32_t offset, uint8_t *out, uint32_t length);
void vial_virtio_write(struct vial_virtio *device, uint32_t offset, const uint8_t *data, uint32_t length);

/* Device thread: after a notification, or when the host side moved. */
void vial_virtio_serve(struct vial_virtio *device);
void vial_virtio_serve_host(struct vial_virtio *device);

/* For devices: returns a chain, and interrupts if the driver wants it. */
int vial_virtio_finish(struct vial_virtio *device, unsigned queue, uint16_t head, uint32_t written_bytes);
bool vial_virtio_has(const struct vial_virtio *device, uint64_t feature);
bool vial_virtio_is_running(const struct vial_virtio *device);
/* Tells the driver that the configuration changed. */
void vial_virtio_config_changed(struct vial_virtio *device);
/* Raises again what the driver has not acknowledged. */
void vial_virtio_remind(struct vial_virtio *device);

/* While everything is parked. */
void vial_virtio_save(struct vial_virtio *device, uint32_t index, struct vial_state_writer *writer);
int vial_virtio_load(struct vial_virtio *device, uint32_t index, const struct vial_state *state);
