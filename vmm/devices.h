/* SPDX-License-Identifier: Apache-2.0 */
/* The device thread: waits for the guest's notifications and the host's ends of all devices, and serves them one after the other. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "virtio/device.h"

struct vial_devices {
	struct vial_virtio *devices;
	unsigned count;
	int epoll_fd;
	int wake_fd;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool wants_park, is_parked, wants_end;
	int (*confine)(void *self);
	void *confine_self;
};

/* Starts the thread, parked. The devices' eventfds exist. */
int vial_devices_start(struct vial_devices *devices);
void vial_devices_resume(struct vial_devices *devices);
/* Returns when nothing touches guest memory or raises an interrupt any more. 0 or -ETIMEDOUT. */
int vial_devices_park(struct vial_devices *devices, unsigned timeout_ms);
/* In a fork there is no thread to end. */
void vial_devices_stop(struct vial_devices *devices, bool has_thread);
