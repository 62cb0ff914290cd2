/* SPDX-License-Identifier: Apache-2.0 */
/* The KVM side of a machine (machine.h): VM, vCPUs and the eventfds between KVM and the devices. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "files.h"
#include "machine.h"
#include "vcpu_state.h"

static void on_io(void *self, uint16_t port, bool is_write, uint8_t *data, uint32_t size)
{
	struct vial_machine *machine = self;

	if (machine->serial.log_fd >= 0 && port >= VIAL_SERIAL_PORT && port < VIAL_SERIAL_PORT + 8 && size == 1) {
		vial_serial_access(&machine->serial, port - VIAL_SERIAL_PORT, is_write, data);
		return;
	}
	if (!is_write) {
		/* Nothing there. The keyboard controller's status reads empty, or the kernel would wait for it before a reset. */
		memset(data, port == VIAL_KEYBOARD_PORT ? 0 : 0xff, size);
		return;
	}
	for (unsigned i = 0; i < machine->vcpu_count; i++) {
		int running = VIAL_VCPU_RUNNING;

		if (port == VIAL_KEYBOARD_PORT && size == 1 && *data == 0xfe)
			atomic_compare_exchange_strong(&machine->vcpus[i].end, &running, VIAL_VCPU_REBOOT);
		else if (port == VIAL_SLEEP_PORT && (*data & 0x20))
			atomic_compare_exchange_strong(&machine->vcpus[i].end, &running, VIAL_VCPU_POWEROFF);
	}
}

static void on_mmio(void *self, uint64_t address, bool is_write, uint8_t *data, uint32_t size)
{
	struct vial_machine *machine = self;
	uint64_t offset = address - VIAL_MMIO_START;
	uint64_t index = offset / VIAL_VIRTIO_MMIO_BYTES;

	if (address < VIAL_MMIO_START || index >= machine->device_count) {
		if (!is_write)
			memset(data, 0, size);
		return;
	}
	if (is_write)
		vial_virtio_write(&machine->devices[index], (uint32_t)(offset % VIAL_VIRTIO_MMIO_BYTES), data, size);
	else
		vial_virtio_read(&machine->devices[index], (uint32_t)(offset % VIAL_VIRTIO_MMIO_BYTES), data, size);
}

static void on_ended(void *self, struct vial_vcpu *vcpu)
{
	struct vial_machine *machine = self;

	vial_file_post(machine->end_fd);
}

static int on_confine(void *self)
{
	struct vial_machine *machine = self;

	return machine->confine_vcpu ? machine->confine_vcpu(machine) : 0;
}

static int open_event(int *out_fd)
{
	*out_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return *out_fd < 0 ? -errno : 0;
}

static int wire_device(struct vial_machine *machine, unsigned index)
{
	struct vial_virtio *device = &machine->devices[index];
	uint64_t address = VIAL_MMIO_START + (uint64_t)index * VIAL_VIRTIO_MMIO_BYTES;
	int result = open_event(&device->interrupt_fd);

	if (result == 0)
		result = open_event(&device->notify_fd);
	if (result == 0)
		result = vial_kvm_irqfd(&machine->kvm, device->interrupt_fd, VIAL_VIRTIO_GSI(index));
	if (result >= 0)
		result = vial_kvm_ioeventfd(&machine->kvm, device->notify_fd, address + VIAL_VIRTIO_NOTIFY_OFFSET);
	return result;
}

static int wire(struct vial_machine *machine)
{
	int result = open_event(&machine->generation_fd);

	if (result == 0)
		result = vial_kvm_irqfd(&machine->kvm, machine->generation_fd, VIAL_GENERATION_GSI);
	if (result >= 0 && machine->serial.log_fd >= 0) {
		result = open_event(&machine->serial.interrupt_fd);
		if (result == 0)
			result = vial_kvm_irqfd(&machine->kvm, machine->serial.interrupt_fd, VIAL_SERIAL_GSI);
	}
	for (unsigned i = 0; i < machine->device_count && result >= 0; i++)
		result = wire_device(machine, i);
	return result < 0 ? result : 0;
}

void vial_machine_init_bus(struct vial_machine *machine)
{
	machine->bus = (struct vial_vcpu_bus){ machine, on_io, on_mmio, on_ended, on_confine };
}

int vial_machine_create_vm(struct vial_machine *machine, const char **out_error)
{
	int result = vial_kvm_create(&machine->kvm, &machine->memory, out_error);

	vial_machine_init_bus(machine);
	if (result == 0)
		*out_error = "a vCPU cannot be created";
	for (unsigned i = 0; i < machine->vcpu_count && result == 0; i++)
		result = vial_vcpu_create(&machine->vcpus[i], &machine->kvm, i, machine->vcpu_count, &machine->bus);
	if (result == 0) {
		*out_error = "the devices cannot be wired to KVM";
		result = wire(machine);
	}
	if (result == 0)
		result = open_event(&machine->end_fd);
	return result;
}

int vial_machine_load_vm(struct vial_machine *machine, const struct vial_state *state)
{
	struct vial_vcpu *vcpus[VIAL_MAX_VCPUS];
	int result = 0;

	for (unsigned i = 0; i < machine->vcpu_count && result == 0; i++) {
		vcpus[i] = &machine->vcpus[i];
		result = vial_vcpu_load(vcpus[i], &machine->kvm, state);
	}
	if (result == 0) {
		vial_vcpu_equalise_tsc(vcpus, machine->vcpu_count);
		result = vial_kvm_load(&machine->kvm, state);
	}
	/*
	 * KVM hands an irqfd's edge on by a worker of its own, which may have been yet to run when the chips were saved: then the guest would
	 * wait for ever for a request that is done. What it has not acknowledged is raised again; once too often is harmless.
	 */
	for (unsigned i = 0; i < machine->device_count && result == 0; i++)
		vial_virtio_remind(&machine->devices[i]);
	return result;
}

void vial_machine_forget_vm(struct vial_machine *machine)
{
	vial_devices_stop(&machine->device_thread, false);
	for (unsigned i = 0; i < machine->vcpu_count; i++)
		vial_vcpu_close(&machine->vcpus[i], false);
	for (unsigned i = 0; i < machine->device_count; i++) {
		vial_file_close(&machine->devices[i].interrupt_fd);
		vial_file_close(&machine->devices[i].notify_fd);
	}
	vial_file_close(&machine->serial.interrupt_fd);
	vial_file_close(&machine->generation_fd);
	vial_file_close(&machine->end_fd);
	vial_kvm_close_vm(&machine->kvm);
	machine->is_running = false;
}

void vial_machine_new_generation(struct vial_machine *machine, bool announces)
{
	uint8_t *generation = vial_memory_at(&machine->memory, VIAL_GENERATION_ADDRESS, 16);

	/* A kernel without the driver ignores both; the agent's HELLO reseeds in any case. */
	if (generation && getrandom(generation, 16, 0) == 16 && announces)
		vial_file_post(machine->generation_fd);
}
