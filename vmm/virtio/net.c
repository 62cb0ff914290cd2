/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See net.h; virtio 1.2, 5.1. The packet header (12 bytes since version 1) is passed through to the TAP, which checks it: it is the
 * kernel's interface for untrusted headers. No mergeable buffers and no receive offload, so each packet fits one buffer.
 */
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../files.h"

#define F_CSUM (1ull << 0)
#define F_MAC (1ull << 5)
#define F_HOST_TSO4 (1ull << 11)
#define F_HOST_TSO6 (1ull << 12)
#define F_STATUS (1ull << 16)
#define STATUS_LINK_UP 1u

enum { QUEUE_RECEIVE = 0, QUEUE_TRANSMIT = 1 };
#define HEADER_BYTES 12u

struct config {
	uint8_t mac[6];
	uint16_t status;
};

static int prepare_tap(int fd)
{
	int size = HEADER_BYTES;

	if (fd < 0)
		return 0;
	if (ioctl(fd, TUNSETVNETHDRSZ, &size) < 0 || ioctl(fd, TUNSETOFFLOAD, 0) < 0)
		return -errno;
	return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int serve_receive(struct vial_virtio *device)
{
	struct vial_net *net = device->self;
	struct vial_chain chain;
	int result;

	while (net->tap_fd >= 0 && (result = vial_queue_pop(&device->queues[QUEUE_RECEIVE], device->memory, &chain)) != 0) {
		ssize_t length;
		uint32_t written = 0;

		if (result < 0)
			return result;
		length = read(net->tap_fd, net->packet, sizeof(net->packet));
		if (length < (ssize_t)HEADER_BYTES) {
			vial_queue_unpop(&device->queues[QUEUE_RECEIVE]);
			return 0;
		}
		if ((uint32_t)length > chain.writable_bytes) {
			net->dropped++;
			vial_queue_unpop(&device->queues[QUEUE_RECEIVE]);
			continue;
		}
		net->packet[10] = 1; /* num_buffers, which only devices set */
		net->packet[11] = 0;
		written = vial_chain_write(&chain, 0, net->packet, (uint32_t)length);
		net->in_packets++;
		net->in_bytes += written;
		result = vial_virtio_finish(device, QUEUE_RECEIVE, chain.head, written);
		if (result < 0)
			return result;
	}
	return 0;
}

static int serve_transmit(struct vial_virtio *device)
{
	struct vial_net *net = device->self;
	struct vial_chain chain;
	int result;

	while ((result = vial_queue_pop(&device->queues[QUEUE_TRANSMIT], device->memory, &chain)) > 0) {
		uint32_t length = vial_chain_read(&chain, 0, net->packet, sizeof(net->packet));

		if (length <= HEADER_BYTES || length < chain.readable_bytes || net->tap_fd < 0 || write(net->tap_fd, net->packet, length) < 0) {
			net->dropped++; /* as a full wire would */
		} else {
			net->out_packets++;
			net->out_bytes += length;
		}
		result = vial_virtio_finish(device, QUEUE_TRANSMIT, chain.head, 0);
		if (result < 0)
			break;
	}
	return result;
}

static int serve(struct vial_virtio *device, unsigned queue)
{
	return queue == QUEUE_RECEIVE ? serve_receive(device) : serve_transmit(device);
}

static int host_fd(struct vial_virtio *device, unsigned n)
{
	struct vial_net *net = device->self;

	return n == 0 ? net->tap_fd : -1;
}

static int on_host(struct vial_virtio *device)
{
	return vial_virtio_is_running(device) && device->queues[QUEUE_RECEIVE].is_ready ? serve_receive(device) : 0;
}

static void read_config(struct vial_virtio *device, uint32_t offset, uint8_t *out, uint32_t length)
{
	const struct vial_net *net = device->self;
	struct config config = { .status = net->tap_fd >= 0 ? STATUS_LINK_UP : 0 };

	memcpy(config.mac, net->mac, sizeof(config.mac));
	if (offset < sizeof(config))
		memcpy(out, (uint8_t *)&config + offset, length < sizeof(config) - offset ? length : sizeof(config) - offset);
}

static void save(struct vial_virtio *device, uint32_t index, struct vial_state_writer *writer)
{
	const struct vial_net *net = device->self;

	vial_state_put(writer, VIAL_STATE_DEVICE, index, net->mac, sizeof(net->mac));
}

static int load(struct vial_virtio *device, uint32_t index, const struct vial_state *state)
{
	struct vial_net *net = device->self;

	return vial_state_get(state, VIAL_STATE_DEVICE, index, net->mac, sizeof(net->mac));
}

static void close_net(struct vial_virtio *device)
{
	struct vial_net *net = device->self;

	vial_file_close(&net->tap_fd);
}

static const struct vial_virtio_ops ops = {
	.name = "net",
	.type = VIAL_VIRTIO_NET,
	.queue_count = 2,
	.queue_size = VIAL_QUEUE_MAX_SIZE,
	.serve = serve,
	.read_config = read_config,
	.host_fd = host_fd,
	.on_host = on_host,
	.save = save,
	.load = load,
	.close = close_net,
};

int vial_net_init(struct vial_virtio *device, struct vial_net *net, const struct vial_memory *memory, int tap_fd, const uint8_t mac[6])
{
	net->tap_fd = tap_fd;
	memcpy(net->mac, mac, sizeof(net->mac));
	vial_virtio_init(device, &ops, net, memory, F_MAC | F_STATUS | F_CSUM | F_HOST_TSO4 | F_HOST_TSO6);
	return prepare_tap(tap_fd);
}

int vial_net_attach(struct vial_virtio *device, int tap_fd)
{
	struct vial_net *net = device->self;
	bool was_up = net->tap_fd >= 0;

	close_net(device);
	net->tap_fd = tap_fd;
	if (was_up != (tap_fd >= 0))
		vial_virtio_config_changed(device);
	return prepare_tap(tap_fd);
}
