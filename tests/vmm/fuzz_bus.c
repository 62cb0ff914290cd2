/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the decoder in front of the devices. Port and MMIO accesses of any address, size and direction go through the machine's bus, as a
 * vCPU's exits would, to a console, a random number generator and a serial port.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "vmm/machine.h"
#include "vmm/virtio/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct vial_machine machine;

static void make_machine(void)
{
	vial_machine_init(&machine);
	machine.vcpu_count = 1;
	assert(vial_memory_create(&machine.memory, 4 << 20) == 0);
	assert(vial_console_init(&machine.devices[0], &machine.console, &machine.memory) == 0);
	vial_rng_init(&machine.devices[1], &machine.memory);
	machine.device_count = 2;
	vial_machine_init_bus(&machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (!machine.memory.base)
		make_machine();
	for (; size >= 18; bytes += 18, size -= 18) {
		uint8_t data[8];
		uint64_t address;
		uint32_t length = 1u << (bytes[1] & 3);

		memcpy(&address, bytes + 2, 8);
		memcpy(data, bytes + 10, 8);
		if (bytes[0] & 2)
			machine.bus.io(machine.bus.self, (uint16_t)address, bytes[0] & 1, data, length > 4 ? 4 : length);
		else /* mostly at the devices, sometimes anywhere */
			machine.bus.mmio(machine.bus.self, bytes[0] & 4 ? address : VIAL_MMIO_START + (address & 0x3fff), bytes[0] & 1, data, length);
		if (bytes[0] & 8)
			vial_virtio_serve(&machine.devices[bytes[0] >> 4 & 1]);
	}
	return 0;
}
