/* SPDX-License-Identifier: Apache-2.0 */
/* See machine.h: running and pausing, and what a saved machine consists of. Building is in build.c. */
#include "machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "fingerprint.h"
#include "vcpu_state.h"

/* The shape of the machine. A state is loaded only into a machine of exactly this shape. */
struct saved_config {
	uint64_t memory_bytes;
	uint32_t vcpus;
	uint32_t devices;
	uint32_t disks;
	uint32_t has_net;
	uint32_t has_serial;
	uint32_t reserved;
	uint64_t disk_bytes[VIAL_MAX_DISKS];
};

void vial_machine_init(struct vial_machine *machine)
{
	memset(machine, 0, sizeof(*machine));
	machine->kvm.fd = machine->kvm.vm_fd = -1;
	machine->generation_fd = machine->end_fd = machine->pagemap_fd = -1;
	machine->device_thread.epoll_fd = machine->device_thread.wake_fd = -1;
	machine->net.tap_fd = -1;
	vial_serial_init(&machine->serial, -1);
	for (unsigned i = 0; i < VIAL_MAX_DISKS; i++)
		machine->blks[i].disk.base_fd = -1;
	for (unsigned i = 0; i < VIAL_MAX_VCPUS; i++)
		machine->vcpus[i].fd = -1;
}

int vial_machine_start(struct vial_machine *machine)
{
	int result;

	machine->device_thread.devices = machine->devices;
	machine->device_thread.count = machine->device_count;
	machine->device_thread.confine = machine->confine_devices;
	machine->device_thread.confine_self = machine;
	result = vial_devices_start(&machine->device_thread);
	for (unsigned i = 0; i < machine->vcpu_count && result == 0; i++)
		result = vial_vcpu_start(&machine->vcpus[i]);
	return result;
}

void vial_machine_resume(struct vial_machine *machine)
{
	if (machine->is_running)
		return;
	vial_devices_resume(&machine->device_thread);
	for (unsigned i = 0; i < machine->vcpu_count; i++)
		vial_vcpu_resume(&machine->vcpus[i]);
	machine->is_running = true;
}

int vial_machine_pause(struct vial_machine *machine)
{
	int result = 0;

	if (!machine->is_running)
		return 0;
	for (unsigned i = 0; i < machine->vcpu_count; i++)
		vial_vcpu_ask_park(&machine->vcpus[i]);
	for (unsigned i = 0; i < machine->vcpu_count && result == 0; i++)
		result = vial_vcpu_wait_parked(&machine->vcpus[i], VIAL_PARK_TIMEOUT_MS);
	if (result == 0)
		result = vial_devices_park(&machine->device_thread, VIAL_PARK_TIMEOUT_MS);
	machine->is_running = false;
	if (result < 0)
		vial_machine_resume(machine);
	return result;
}

const char *vial_machine_end(const struct vial_machine *machine, const struct vial_vcpu **out_vcpu)
{
	for (unsigned i = 0; i < machine->vcpu_count; i++) {
		const struct vial_vcpu *vcpu = &machine->vcpus[i];

		*out_vcpu = vcpu;
		switch (atomic_load(&vcpu->end)) {
		case VIAL_VCPU_POWEROFF:
			return "poweroff";
		case VIAL_VCPU_REBOOT:
			return "reboot";
		case VIAL_VCPU_CRASH:
			return "guest_crash";
		case VIAL_VCPU_ERROR:
			return "kvm_error";
		}
	}
	return NULL;
}

void vial_machine_close(struct vial_machine *machine)
{
	for (unsigned i = 0; i < machine->vcpu_count; i++)
		vial_vcpu_close(&machine->vcpus[i], true);
	vial_devices_stop(&machine->device_thread, true);
	for (unsigned i = 0; i < machine->device_count; i++)
		vial_virtio_close(&machine->devices[i]);
	vial_machine_forget_vm(machine);
	vial_kvm_close(&machine->kvm);
	vial_memory_close(&machine->memory);
	vial_file_close(&machine->pagemap_fd);
}

static struct saved_config describe(const struct vial_machine *machine)
{
	struct saved_config config = {
		.memory_bytes = machine->memory.size_bytes,
		.vcpus = machine->vcpu_count,
		.devices = machine->device_count,
		.disks = machine->disk_count,
		.has_net = machine->has_net,
		.has_serial = machine->serial.log_fd >= 0,
	};

	for (unsigned i = 0; i < machine->disk_count; i++)
		config.disk_bytes[i] = machine->blks[i].disk.size_bytes;
	return config;
}

/* `first` was taken out already by the relay, which had no whole frame yet. */
static void save_pipe(struct vial_pipe *pipe, uint32_t tag, const uint8_t *first, size_t first_bytes, struct vial_state_writer *writer)
{
	uint8_t *room = vial_state_reserve(writer, tag, 0, first_bytes + pipe->used);

	if (room && first_bytes > 0)
		memcpy(room, first, first_bytes);
	for (size_t i = 0; room && i < pipe->used; i++)
		room[first_bytes + i] = pipe->bytes[(pipe->start + i) % VIAL_PIPE_BYTES];
}

int vial_machine_save(struct vial_machine *machine, const struct vial_saved_wire *wire, struct vial_state_writer *writer)
{
	struct saved_config config = describe(machine);
	int result;

	vial_fingerprint_save(&machine->kvm, writer);
	vial_state_put(writer, VIAL_STATE_CONFIG, 0, &config, sizeof(config));
	/* Devices before vCPUs: had one of them still raised an interrupt, the chips' state would hold it. */
	for (unsigned i = 0; i < machine->device_count; i++)
		vial_virtio_save(&machine->devices[i], i, writer);
	if (machine->serial.log_fd >= 0)
		vial_serial_save(&machine->serial, writer);
	save_pipe(&machine->console.to_guest, VIAL_STATE_PIPE_IN, NULL, 0, writer);
	save_pipe(&machine->console.from_guest, VIAL_STATE_PIPE_OUT, wire->unparsed, wire->unparsed_bytes, writer);
	vial_state_put(writer, VIAL_STATE_EPOCH, 0, &wire->epoch, sizeof(wire->epoch));
	for (unsigned i = 0; i < machine->vcpu_count; i++) {
		result = vial_vcpu_save(&machine->vcpus[i], &machine->kvm, writer);
		if (result < 0)
			return result;
	}
	result = vial_kvm_save(&machine->kvm, writer);
	return result < 0 ? result : vial_state_end(writer);
}

static int load_pipe(struct vial_pipe *pipe, uint32_t tag, const struct vial_state *state)
{
	size_t length;
	const uint8_t *bytes = vial_state_find(state, tag, 0, &length);

	if (!bytes || length > VIAL_PIPE_BYTES)
		return -EPROTO;
	vial_pipe_put(pipe, bytes, length);
	return 0;
}

int vial_machine_load(struct vial_machine *machine, const struct vial_state *state, uint16_t *out_epoch)
{
	struct saved_config expected = describe(machine), config;

	if (vial_state_get(state, VIAL_STATE_CONFIG, 0, &config, sizeof(config)) < 0 || memcmp(&config, &expected, sizeof(config)) != 0)
		return -EINVAL;
	for (unsigned i = 0; i < machine->device_count; i++) {
		if (vial_virtio_load(&machine->devices[i], i, state) < 0)
			return -EPROTO;
	}
	if (machine->serial.log_fd >= 0 && vial_serial_load(&machine->serial, state) < 0)
		return -EPROTO;
	if (load_pipe(&machine->console.to_guest, VIAL_STATE_PIPE_IN, state) < 0 ||
	    load_pipe(&machine->console.from_guest, VIAL_STATE_PIPE_OUT, state) < 0 ||
	    vial_state_get(state, VIAL_STATE_EPOCH, 0, out_epoch, sizeof(*out_epoch)) < 0)
		return -EPROTO;
	return vial_machine_load_vm(machine, state);
}
