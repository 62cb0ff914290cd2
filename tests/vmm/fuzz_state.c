/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the state file's reader, the devices that load from it, and the hot set's. With an odd first byte the sums are made right first,
 * because a fuzzer would not guess them and a liar would compute them.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/hotset.h"
#include "vmm/state.h"
#include "vmm/virtio/console.h"
#include "vmm/virtio/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct vial_memory memory;

/* The input's sections, rewritten with correct sums: tag, index, length byte, bytes. */
static void build(const uint8_t *bytes, size_t size, struct vial_state_writer *writer)
{
	vial_state_begin(writer);
	while (size >= 6) {
		uint32_t tag;
		size_t length = bytes[5];

		memcpy(&tag, bytes, 4);
		if (length > size - 6)
			length = size - 6;
		vial_state_put(writer, tag, bytes[4], bytes + 6, length);
		bytes += 6 + length;
		size -= 6 + length;
	}
	vial_state_end(writer);
}

static void use(const struct vial_state *state)
{
	static struct vial_virtio device;
	static struct vial_console console;
	static int is_ready;

	if (!is_ready)
		is_ready = vial_console_init(&device, &console, &memory) == 0;
	if (vial_virtio_load(&device, 0, state) == 0)
		vial_virtio_serve(&device);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct vial_state state;
	struct vial_state_writer writer;
	uint64_t fetched;

	if (size < 2)
		return 0;
	if (!memory.base)
		assert(vial_memory_create(&memory, 4 << 20) == 0);
	if (bytes[0] & 1) {
		build(bytes + 1, size - 1, &writer);
		if (writer.error == 0 && vial_state_parse(writer.bytes, writer.size_bytes, &state) == 0)
			use(&state);
		vial_state_clear(&writer);
	} else if (vial_state_parse(bytes + 1, size - 1, &state) == 0) {
		use(&state);
	}
	vial_hotset_fetch(&memory, bytes + 1, size - 1, &fetched);
	return 0;
}
