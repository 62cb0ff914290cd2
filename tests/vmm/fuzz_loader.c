/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the kernel loader. The first byte cuts the input into kernel and initramfs, the rest is both. */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>

#include "vmm/layout.h"
#include "vmm/loader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct vial_memory memory;
	struct vial_loader_input input = { .command_line = "quiet" };
	uint64_t entry = 0;

	if (size < 2)
		return 0;
	if (!memory.base)
		assert(vial_memory_create(&memory, 32 << 20) == 0);
	input.kernel = bytes + 1;
	input.kernel_bytes = size - 1;
	input.initrd_bytes = input.kernel_bytes * (bytes[0] & 3) / 4;
	input.initrd = bytes + size - input.initrd_bytes;
	/* What is loaded starts above the tables that the loader itself wrote. */
	if (vial_loader_load(&memory, &input, &entry) == 0)
		assert(entry >= VIAL_KERNEL_MINIMUM_ADDRESS);
	return 0;
}
