/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See devices.h. After a resume every device is served once: what was notified or arrived around the pause is found in the queues, so
 * no notification has to be saved.
 */
#include "devices.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "files.h"

#define STACK_BYTES (256u * 1024u)
#define MAX_EVENTS 16
/* epoll data: device * 4 + kind */
enum { KIND_NOTIFY = 0, KIND_HOST = 1, KIND_WAKE = 2 };

static int watch(struct vial_devices *devices, int fd, uint32_t events, unsigned index, unsigned kind)
{
	struct epoll_event event = { .events = events, .data.u32 = index * 4 + kind };

	return epoll_ctl(devices->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int watch_device(struct vial_devices *devices, unsigned index)
{
	struct vial_virtio *device = &devices->devices[index];
	int result = watch(devices, device->notify_fd, EPOLLIN, index, KIND_NOTIFY);

	for (unsigned n = 0; n < 2 && result == 0 && device->ops->host_fd; n++) {
		int fd = device->ops->host_fd(device, n);

		if (fd >= 0)
			result = watch(devices, fd, EPOLLIN | EPOLLET, index, KIND_HOST);
	}
	return result;
}

static void serve_all(struct vial_devices *devices)
{
	for (unsigned i = 0; i < devices->count; i++) {
		vial_virtio_serve(&devices->devices[i]);
		vial_virtio_serve_host(&devices->devices[i]);
	}
}

static void serve(struct vial_devices *devices, uint32_t data)
{
	struct vial_virtio *device;
	uint64_t count;

	if (data % 4 == KIND_WAKE) {
		(void)!read(devices->wake_fd, &count, sizeof(count));
		return;
	}
	device = &devices->devices[data / 4];
	if (data % 4 == KIND_NOTIFY) {
		(void)!read(device->notify_fd, &count, sizeof(count));
		vial_virtio_serve(device);
	} else {
		vial_virtio_serve_host(device);
	}
}

/* False when the thread shall end. */
static bool park_if_asked(struct vial_devices *devices)
{
	bool goes_on, was_parked = false;

	pthread_mutex_lock(&devices->lock);
	while (devices->wants_park && !devices->wants_end) {
		devices->is_parked = was_parked = true;
		pthread_cond_broadcast(&devices->changed);
		pthread_cond_wait(&devices->changed, &devices->lock);
	}
	devices->is_parked = false;
	goes_on = !devices->wants_end;
	pthread_mutex_unlock(&devices->lock);
	if (goes_on && was_parked)
		serve_all(devices);
	return goes_on;
}

static void *run(void *argument)
{
	struct vial_devices *devices = argument;

	/* Without its filter the thread never serves; starting then times out and the machine with it. */
	if (devices->confine && devices->confine(devices->confine_self) < 0)
		return NULL;
	while (park_if_asked(devices)) {
		struct epoll_event events[MAX_EVENTS];
		int count = epoll_wait(devices->epoll_fd, events, MAX_EVENTS, -1);

		for (int i = 0; i < count; i++)
			serve(devices, events[i].data.u32);
	}
	return NULL;
}

int vial_devices_start(struct vial_devices *devices)
{
	pthread_attr_t attributes;
	int result = 0;

	pthread_mutex_init(&devices->lock, NULL);
	pthread_cond_init(&devices->changed, NULL);
	devices->wants_park = true;
	devices->is_parked = devices->wants_end = false;
	devices->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	devices->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (devices->epoll_fd < 0 || devices->wake_fd < 0)
		return -errno;
	result = watch(devices, devices->wake_fd, EPOLLIN, 0, KIND_WAKE);
	for (unsigned i = 0; i < devices->count && result == 0; i++)
		result = watch_device(devices, i);
	if (result < 0)
		return result;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	result = -pthread_create(&devices->thread, &attributes, run, devices);
	pthread_attr_destroy(&attributes);
	devices->has_thread = result == 0;
	return result < 0 ? result : vial_clock_wait(&devices->lock, &devices->changed, &devices->is_parked, 10000);
}

static void set(struct vial_devices *devices, bool wants_park, bool wants_end)
{
	pthread_mutex_lock(&devices->lock);
	devices->wants_park = wants_park;
	devices->wants_end = wants_end;
	pthread_cond_broadcast(&devices->changed);
	pthread_mutex_unlock(&devices->lock);
	vial_file_post(devices->wake_fd);
}

void vial_devices_resume(struct vial_devices *devices)
{
	set(devices, false, false);
}

int vial_devices_park(struct vial_devices *devices, unsigned timeout_ms)
{
	set(devices, true, false);
	return vial_clock_wait(&devices->lock, &devices->changed, &devices->is_parked, timeout_ms);
}

void vial_devices_stop(struct vial_devices *devices, bool has_thread)
{
	if (has_thread && devices->has_thread) {
		set(devices, true, true);
		pthread_join(devices->thread, NULL);
	}
	if (devices->epoll_fd > 0)
		close(devices->epoll_fd);
	if (devices->wake_fd > 0)
		close(devices->wake_fd);
	devices->epoll_fd = devices->wake_fd = -1;
	devices->has_thread = false;
}
