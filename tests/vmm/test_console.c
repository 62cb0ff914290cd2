/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the console device, its pipes and the relay of frames behind it; and of the balloon and the network device. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fake_driver.h"
#include "vmm/relay.h"
#include "vmm/virtio/balloon.h"
#include "vmm/virtio/console.h"
#include "vmm/virtio/net.h"

static struct vial_memory memory;
static struct vial_virtio device;
static struct vial_console console;

static void send_control(uint16_t event, uint16_t value)
{
	struct vial_console_message message = { 0, event, value };

	assert(vial_memory_write(&memory, FAKE_DATA, &message, sizeof(message)) == 0);
	fake_descriptor(&device, 3, 0, FAKE_DATA, sizeof(message), 0, 0);
	fake_offer(&device, 3, 0);
	vial_virtio_serve(&device);
}

static void the_port_is_announced_and_opened(void)
{
	struct vial_console_message *answers = vial_memory_at(&memory, FAKE_DATA + 0x1000, 64);

	fake_bring_up(&device);
	for (uint16_t i = 0; i < 4; i++) {
		fake_descriptor(&device, 2, i, FAKE_DATA + 0x1000 + i * 8u, 8, DESC_WRITE, 0);
		fake_offer(&device, 2, i);
	}
	send_control(0, 1);
	assert(fake_used_index(&device, 2) == 1 && answers[0].event == 1);
	send_control(3, 1);
	assert(fake_used_index(&device, 2) == 2 && answers[1].event == 6 && answers[1].value == 1);
	/* Bytes for the guest wait until the agent opens the port. */
	assert(vial_pipe_put(&console.to_guest, "hello", 5) == 5);
	fake_descriptor(&device, 0, 0, FAKE_DATA + 0x2000, 64, DESC_WRITE, 0);
	fake_offer(&device, 0, 0);
	vial_virtio_serve_host(&device);
	assert(fake_used_index(&device, 0) == 0);
	send_control(6, 1);
	assert(fake_used_index(&device, 0) == 1 && fake_used_length(&device, 0, 0) == 5);
	assert(memcmp(vial_memory_at(&memory, FAKE_DATA + 0x2000, 5), "hello", 5) == 0);
}

static void a_flood_of_control_messages_takes_no_memory(void)
{
	for (int i = 0; i < 1000; i++)
		send_control(0, 1);
	assert(console.control_count <= VIAL_CONSOLE_MAX_CONTROL);
}

static void a_full_pipe_leaves_the_buffer_with_the_guest(void)
{
	static uint8_t drain[VIAL_PIPE_BYTES];
	uint16_t used = fake_used_index(&device, 1);
	size_t total = 0;

	for (uint16_t i = 0; i < FAKE_QUEUE_SIZE; i++) {
		fake_descriptor(&device, 1, i, FAKE_DATA + 0x10000, 60000, 0, 0);
		fake_offer(&device, 1, i);
	}
	vial_virtio_serve(&device);
	assert((uint16_t)(fake_used_index(&device, 1) - used) == VIAL_PIPE_BYTES / 60000);
	total = vial_pipe_take(&console.from_guest, drain, sizeof(drain));
	vial_virtio_serve_host(&device);
	total += vial_pipe_take(&console.from_guest, drain, sizeof(drain));
	assert((uint16_t)(fake_used_index(&device, 1) - used) == FAKE_QUEUE_SIZE && total == 16u * 60000);
}

static void put_frame(uint16_t epoch, uint32_t stream, uint8_t type, const char *payload)
{
	struct vial_wire_frame frame = { .length = (uint32_t)strlen(payload), .stream = stream, .epoch = epoch, .type = type };
	uint8_t header[VIAL_WIRE_HEADER_BYTES];

	vial_wire_header_encode(&frame, header);
	assert(vial_pipe_put_whole(&console.from_guest, header, sizeof(header), payload, frame.length));
}

static void frames_of_older_epochs_are_dropped(void)
{
	struct vial_relay relay;
	struct vial_wire_frame frame, out = { .length = 4, .stream = 9, .epoch = 77, .type = VIAL_WIRE_DATA, .payload = (const uint8_t *)"data" };
	uint8_t bytes[64];

	assert(vial_relay_init(&relay, &console.to_guest, &console.from_guest) == 0);
	while (vial_pipe_take(&console.to_guest, bytes, sizeof(bytes)))
		;
	vial_relay_attach(&relay);
	vial_relay_attach(&relay);
	assert(relay.epoch == 2 && vial_relay_send(&relay, &out));
	/* RESET of epoch 1, RESET of epoch 2, the frame with our epoch, not its own. */
	assert(vial_pipe_take(&console.to_guest, bytes, sizeof(bytes)) == 12 + 12 + 16);
	assert(bytes[10] == VIAL_WIRE_RESET && bytes[8] == 1 && bytes[20] == 2 && bytes[24 + 8] == 2 && memcmp(bytes + 36, "data", 4) == 0);
	put_frame(1, 5, VIAL_WIRE_DATA, "late");
	put_frame(2, 6, VIAL_WIRE_DATA, "now");
	assert(vial_relay_receive(&relay, &frame) == 1 && frame.stream == 6 && frame.length == 3);
	assert(vial_relay_receive(&relay, &frame) == 0);
	/* The guest may not speak as the host. */
	put_frame(2, VIAL_WIRE_STREAM_HOST, VIAL_WIRE_CLOSE, "{}");
	assert(vial_relay_receive(&relay, &frame) == -EPROTO && vial_relay_receive(&relay, &frame) == -EPROTO);
	vial_wire_reader_clear(&relay.from_guest);
}

static void reported_pages_come_back_as_zeros(void)
{
	struct vial_virtio balloon_device;
	struct vial_balloon balloon;
	uint8_t *page = vial_memory_at(&memory, 0x400000, 4096);

	vial_balloon_init(&balloon_device, &balloon, &memory);
	fake_bring_up(&balloon_device);
	memset(page, 0x55, 4096);
	fake_descriptor(&balloon_device, 2, 0, 0x400000, 2 << 20, DESC_WRITE, 0);
	fake_offer(&balloon_device, 2, 0);
	fake_descriptor(&balloon_device, 2, 1, 0x400001, 4096, DESC_WRITE, 0);
	fake_offer(&balloon_device, 2, 1);
	vial_virtio_serve(&balloon_device);
	assert(fake_used_index(&balloon_device, 2) == 2 && balloon.returned_bytes == 2 << 20 && page[0] == 0);
}

static void packets_pass_a_tap(void)
{
	static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
	static struct vial_net net;
	struct vial_virtio net_device;
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	uint8_t seen[6];
	int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	if (tap < 0 || ioctl(tap, TUNSETIFF, &request) < 0) {
		puts("skipped: no TAP device can be made here");
		return;
	}
	assert(vial_net_init(&net_device, &net, &memory, tap, mac) == 0);
	fake_bring_up(&net_device);
	vial_virtio_read(&net_device, 0x100, seen, 6);
	assert(memcmp(seen, mac, 6) == 0);
	/* The interface is down, so the kernel refuses it: dropped, not stuck. Neither is a packet that is all header, or far too long. */
	fake_descriptor(&net_device, 1, 0, FAKE_DATA, 100, 0, 0);
	fake_offer(&net_device, 1, 0);
	fake_descriptor(&net_device, 1, 1, FAKE_DATA, 12, 0, 0);
	fake_offer(&net_device, 1, 1);
	fake_descriptor(&net_device, 1, 2, FAKE_DATA, 200000, 0, 0);
	fake_offer(&net_device, 1, 2);
	vial_virtio_serve(&net_device);
	assert(fake_used_index(&net_device, 1) == 3 && net.dropped + net.out_packets == 3 && net.dropped >= 2);
	assert(vial_net_attach(&net_device, -1) == 0);
	vial_virtio_read(&net_device, 0x106, seen, 2);
	assert(seen[0] == 0 && (fake_read32(&net_device, 0x60) & 2));
	vial_virtio_close(&net_device);
}

int main(void)
{
	assert(vial_memory_create(&memory, FAKE_MEMORY_BYTES) == 0);
	assert(vial_console_init(&device, &console, &memory) == 0);
	the_port_is_announced_and_opened();
	a_flood_of_control_messages_takes_no_memory();
	a_full_pipe_leaves_the_buffer_with_the_guest();
	frames_of_older_epochs_are_dropped();
	reported_pages_come_back_as_zeros();
	packets_pass_a_tap();
	puts("6 console, balloon and net tests passed");
	return 0;
}
