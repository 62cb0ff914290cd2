/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the transport and the queues: what a broken or hostile driver may not achieve. */
#undef NDEBUG
#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_driver.h"
#include "vmm/virtio/rng.h"

static struct vial_memory memory;
static struct vial_virtio rng;

static void the_registers_tell_who_it_is(void)
{
	assert(fake_read32(&rng, 0x00) == 0x74726976 && fake_read32(&rng, 0x04) == 2 && fake_read32(&rng, 0x08) == VIAL_VIRTIO_RNG);
	assert(fake_read32(&rng, 0x34) == 64);
	fake_write32(&rng, 0x30, 1);
	assert(fake_read32(&rng, 0x34) == 0);
	fake_write32(&rng, 0x30, 0xffffffff);
	assert(fake_read32(&rng, 0x34) == 0 && fake_read32(&rng, 0x44) == 0);
}

static void odd_accesses_are_ignored(void)
{
	uint8_t bytes[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

	vial_virtio_write(&rng, 0x70, bytes, 1);
	vial_virtio_write(&rng, 0x71, bytes, 4);
	vial_virtio_write(&rng, 0x70, bytes, 8);
	assert(fake_read32(&rng, 0x70) == 0);
	vial_virtio_read(&rng, 0xffd, bytes, 8);
	assert(bytes[0] == 0 && bytes[7] == 0);
	vial_virtio_read(&rng, 0xfffffffc, bytes, 8);
	vial_virtio_write(&rng, 0xfffffffc, bytes, 4);
}

static void features_not_offered_are_refused(void)
{
	fake_write32(&rng, 0x70, 3);
	fake_write32(&rng, 0x24, 1);
	fake_write32(&rng, 0x20, 0xff);
	fake_write32(&rng, 0x70, 11);
	assert(!(fake_read32(&rng, 0x70) & VIAL_VIRTIO_STATUS_FEATURES_OK));
	fake_write32(&rng, 0x70, 15);
	assert(!vial_virtio_is_running(&rng));
	fake_write32(&rng, 0x70, 0);
}

static void a_live_queue_never_changes(void)
{
	struct vial_queue before;

	fake_bring_up(&rng);
	before = rng.queues[0];
	fake_set_queue(&rng, 0, 256, 0x300000);
	fake_write32(&rng, 0x44, 0);
	fake_write32(&rng, 0x38, 0);
	assert(memcmp(&before, &rng.queues[0], sizeof(before)) == 0);
}

static void impossible_queues_do_not_become_ready(void)
{
	static const struct {
		uint32_t size;
		uint64_t ring;
	} cases[] = {
		{ 0, FAKE_RING },
		{ 3, FAKE_RING },
		{ 128, FAKE_RING },
		{ 65536 + 16, FAKE_RING },
		{ 16, FAKE_RING + 8 },
		{ 16, FAKE_MEMORY_BYTES - 0x1000 },
		{ 16, 0xfffffffffffff000ull },
		{ 16, 0xd0000000ull },
		{ 16, VIAL_HIGH_RAM_START },
	};

	fake_write32(&rng, 0x70, 0);
	fake_write32(&rng, 0x70, 3);
	fake_write32(&rng, 0x24, 1);
	fake_write32(&rng, 0x20, 1);
	fake_write32(&rng, 0x70, 11);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		fake_set_queue(&rng, 0, cases[i].size, cases[i].ring);
		assert(fake_read32(&rng, 0x44) == 0);
	}
}

static void a_request_is_served(void)
{
	uint8_t *data = vial_memory_at(&memory, FAKE_DATA, 64), sum = 0;

	fake_bring_up(&rng);
	memset(data, 0, 64);
	fake_descriptor(&rng, 0, 0, FAKE_DATA, 64, DESC_WRITE, 0);
	fake_offer(&rng, 0, 0);
	vial_virtio_serve(&rng);
	assert(fake_used_index(&rng, 0) == 1 && fake_used_length(&rng, 0, 0) == 64);
	for (int i = 0; i < 64; i++)
		sum |= data[i];
	assert(sum != 0 && (fake_read32(&rng, 0x60) & 1));
	fake_write32(&rng, 0x64, 1);
	assert(fake_read32(&rng, 0x60) == 0);
}

static void expect_broken(const char *what)
{
	vial_virtio_serve(&rng);
	if (!(fake_read32(&rng, 0x70) & VIAL_VIRTIO_STATUS_NEEDS_RESET)) {
		fprintf(stderr, "not noticed: %s\n", what);
		assert(0);
	}
	/* Deaf until reset, and then as good as new. */
	vial_virtio_serve(&rng);
	fake_bring_up(&rng);
}

static void broken_rings_are_noticed(void)
{
	uint16_t *available = vial_memory_at(&memory, fake_ring(0) + 0x2000, 64);

	fake_bring_up(&rng);
	fake_descriptor(&rng, 0, 0, FAKE_DATA, 16, DESC_WRITE | DESC_NEXT, 0);
	fake_offer(&rng, 0, 0);
	expect_broken("a chain that loops");
	fake_offer(&rng, 0, FAKE_QUEUE_SIZE);
	expect_broken("a head outside the table");
	fake_descriptor(&rng, 0, 0, FAKE_DATA, 16, DESC_WRITE | DESC_NEXT, 999);
	fake_offer(&rng, 0, 0);
	expect_broken("a next outside the table");
	fake_descriptor(&rng, 0, 0, FAKE_MEMORY_BYTES - 8, 16, DESC_WRITE, 0);
	fake_offer(&rng, 0, 0);
	expect_broken("a buffer over the end of memory");
	fake_descriptor(&rng, 0, 0, 0xfffffffffffffff0ull, 0x20, DESC_WRITE, 0);
	fake_offer(&rng, 0, 0);
	expect_broken("a buffer that wraps around");
	fake_descriptor(&rng, 0, 0, FAKE_DATA, 16, DESC_WRITE | DESC_NEXT, 1);
	fake_descriptor(&rng, 0, 1, FAKE_DATA, 16, 0, 0);
	fake_offer(&rng, 0, 0);
	expect_broken("a readable buffer after a writable one");
	fake_descriptor(&rng, 0, 0, FAKE_DATA, 16, DESC_WRITE | 4, 0);
	fake_offer(&rng, 0, 0);
	expect_broken("an indirect table, which is not offered");
	available[1] = 40000;
	expect_broken("an index further ahead than the queue is long");
}

static void notifications_wrap_around(void)
{
	fake_bring_up(&rng);
	fake_descriptor(&rng, 0, 0, FAKE_DATA, 8, DESC_WRITE, 0);
	for (unsigned i = 0; i < 70000; i++) {
		fake_offer(&rng, 0, 0);
		vial_virtio_serve(&rng);
	}
	assert(fake_used_index(&rng, 0) == (uint16_t)70000);
}

/* The state of a device, number 3, that has served one request and whose driver has not acknowledged it. */
static void save_after_one_request(struct vial_state_writer *writer, struct vial_state *out_state)
{
	fake_bring_up(&rng);
	fake_descriptor(&rng, 0, 0, FAKE_DATA, 8, DESC_WRITE, 0);
	fake_offer(&rng, 0, 0);
	vial_virtio_serve(&rng);
	vial_state_begin(writer);
	vial_virtio_save(&rng, 3, writer);
	assert(vial_state_end(writer) == 0 && vial_state_parse(writer->bytes, writer->size_bytes, out_state) == 0);
}

static void state_survives_and_nonsense_does_not(void)
{
	struct vial_state_writer writer;
	struct vial_state state;
	struct vial_virtio copy;

	save_after_one_request(&writer, &state);
	vial_rng_init(&copy, &memory);
	assert(vial_virtio_load(&copy, 2, &state) == -EPROTO && vial_virtio_load(&copy, 3, &state) == 0);
	assert(copy.queues[0].next_available == 1 && copy.queues[0].next_used == 1 && vial_virtio_is_running(&copy));
	fake_offer(&copy, 0, 0);
	vial_virtio_serve(&copy);
	assert(fake_used_index(&copy, 0) == 2);
	vial_state_clear(&writer);
}

/* KVM may have had the edge but not delivered it when the machine was saved: the copy raises it again, until the driver acknowledges. */
static void an_interrupt_under_way_is_raised_again(void)
{
	struct vial_state_writer writer;
	struct vial_state state;
	struct vial_virtio copy;
	uint64_t count;

	save_after_one_request(&writer, &state);
	vial_rng_init(&copy, &memory);
	copy.interrupt_fd = eventfd(0, EFD_NONBLOCK);
	assert(vial_virtio_load(&copy, 3, &state) == 0);
	vial_virtio_remind(&copy);
	assert(read(copy.interrupt_fd, &count, sizeof(count)) == sizeof(count) && count == 1);
	fake_write32(&copy, 0x64, 1);
	vial_virtio_remind(&copy);
	assert(read(copy.interrupt_fd, &count, sizeof(count)) < 0);
	vial_virtio_close(&copy);
	vial_state_clear(&writer);
}

int main(void)
{
	assert(vial_memory_create(&memory, FAKE_MEMORY_BYTES) == 0);
	vial_rng_init(&rng, &memory);
	the_registers_tell_who_it_is();
	odd_accesses_are_ignored();
	features_not_offered_are_refused();
	a_live_queue_never_changes();
	impossible_queues_do_not_become_ready();
	a_request_is_served();
	broken_rings_are_noticed();
	notifications_wrap_around();
	state_survives_and_nonsense_does_not();
	an_interrupt_under_way_is_raised_again();
	puts("11 virtio tests passed");
	return 0;
}
