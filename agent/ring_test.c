/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the ring. */
#undef NDEBUG
#include "ring.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static uint8_t buffer[VIAL_RING_BYTES];

static void pieces_come_back_in_order_with_their_channel(void)
{
	struct vial_ring *ring = vial_ring_new();
	struct vial_ring_reader reader = { 0 };
	uint8_t channel;

	vial_ring_put(ring, 1, (const uint8_t *)"out", 3);
	vial_ring_put(ring, 2, (const uint8_t *)"err", 3);
	assert(vial_ring_get(ring, &reader, &channel, buffer, 2) == 2 && channel == 1 && memcmp(buffer, "ou", 2) == 0);
	assert(vial_ring_get(ring, &reader, &channel, buffer, 100) == 1 && channel == 1 && buffer[0] == 't');
	assert(vial_ring_get(ring, &reader, &channel, buffer, 100) == 3 && channel == 2 && memcmp(buffer, "err", 3) == 0);
	assert(vial_ring_get(ring, &reader, &channel, buffer, 100) == 0);
	vial_ring_put(ring, 1, (const uint8_t *)"x", 1);
	assert(vial_ring_get(ring, &reader, &channel, buffer, 100) == 1 && buffer[0] == 'x');
	vial_ring_free(ring);
}

/* Counts up through many times the ring's size; whatever a reader gets must go on counting. */
static void an_overrun_reader_goes_on_at_the_oldest_piece(void)
{
	struct vial_ring *ring = vial_ring_new();
	struct vial_ring_reader slow = { 0 };
	uint32_t next = 0, expected = 0;
	uint8_t channel;
	size_t total = 0, got;

	for (int round = 0; round < 3000; round++) {
		uint32_t numbers[251];

		for (size_t i = 0; i < 251; i++)
			numbers[i] = next++;
		vial_ring_put(ring, 1, (uint8_t *)numbers, sizeof(numbers));
	}
	while ((got = vial_ring_get(ring, &slow, &channel, buffer, 1000)) > 0) {
		for (size_t i = 0; i + 4 <= got; i += 4) {
			uint32_t number;

			memcpy(&number, buffer + i, 4);
			if (total > 0)
				assert(number == expected);
			expected = number + 1;
			total += 4;
		}
	}
	assert(expected == next);
	assert(total > VIAL_RING_BYTES * 9 / 10 && total <= VIAL_RING_BYTES);
	vial_ring_free(ring);
}

static void a_write_larger_than_the_ring_keeps_its_end(void)
{
	static uint8_t large[3 * VIAL_RING_BYTES];
	struct vial_ring *ring = vial_ring_new();
	struct vial_ring_reader reader = { 0 };
	uint8_t channel, last = 0;
	size_t got;

	memset(large, 'a', sizeof(large));
	large[sizeof(large) - 1] = 'z';
	vial_ring_put(ring, 1, large, sizeof(large));
	while ((got = vial_ring_get(ring, &reader, &channel, buffer, sizeof(buffer))) > 0)
		last = buffer[got - 1];
	assert(last == 'z');
	vial_ring_free(ring);
}

static void a_reader_can_begin_at_any_byte(void)
{
	static uint8_t large[VIAL_RING_BYTES];
	struct vial_ring *ring = vial_ring_new();
	struct vial_ring_reader reader = { 0 };
	uint8_t channel;

	assert(vial_ring_seek(ring, 0, &reader) == 0 && vial_ring_seek(ring, 7, &reader) == 0);
	vial_ring_put(ring, 1, (const uint8_t *)"abc", 3);
	vial_ring_put(ring, 2, (const uint8_t *)"defg", 4);
	assert(vial_ring_seek(ring, 4, &reader) == 4 && vial_ring_get(ring, &reader, &channel, buffer, sizeof(buffer)) == 3);
	assert(memcmp(buffer, "efg", 3) == 0 && channel == 2 && vial_ring_get(ring, &reader, &channel, buffer, sizeof(buffer)) == 0);
	assert(vial_ring_seek(ring, 3, &reader) == 3 && vial_ring_get(ring, &reader, &channel, buffer, 2) == 2 && buffer[0] == 'd');
	assert(vial_ring_seek(ring, 1000, &reader) == 7 && vial_ring_get(ring, &reader, &channel, buffer, sizeof(buffer)) == 0);
	memset(large, 'x', sizeof(large));
	vial_ring_put(ring, 1, large, sizeof(large));
	/* What was dropped counts, and is not there. */
	assert(vial_ring_seek(ring, 2, &reader) > 7 && vial_ring_get(ring, &reader, &channel, buffer, 1) == 1 && buffer[0] == 'x');
	assert(vial_ring_seek(ring, UINT64_MAX, &reader) == 7 + sizeof(large));
	vial_ring_free(ring);
}

int main(void)
{
	pieces_come_back_in_order_with_their_channel();
	an_overrun_reader_goes_on_at_the_oldest_piece();
	a_write_larger_than_the_ring_keeps_its_end();
	a_reader_can_begin_at_any_byte();
	puts("4 passed");
	return 0;
}
