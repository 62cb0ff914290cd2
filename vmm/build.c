/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a machine (machine.h) from its configuration: opens files, makes the devices, loads a kernel or a snapshot. Before the jail. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acpi.h"
#include "files.h"
#include "fingerprint.h"
#include "hotset.h"
#include "loader.h"
#include "machine.h"
#include "vcpu_state.h"
#include "virtio/rng.h"

#define KERNEL_MAX_BYTES (256u << 20)

struct snapshot {
	struct vial_mapped_file file;
	struct vial_state state;
	bool is_used;
};

static struct vial_virtio *next_device(struct vial_machine *machine)
{
	return machine->device_count < VIAL_MAX_DEVICES ? &machine->devices[machine->device_count++] : NULL;
}

static int add_frozen_layer(struct vial_machine *machine, unsigned index, const struct vial_disk_config *config, const struct snapshot *snapshot)
{
	size_t length;
	/* Devices are numbered as the guest sees them: the console is before the disks. */
	const uint8_t *bitmap = snapshot->is_used ? vial_state_find(&snapshot->state, VIAL_STATE_DEVICE, index + 1, &length) : NULL;
	int fd;

	if (!config->layer)
		return snapshot->is_used && config->is_writable ? -EINVAL : 0;
	if (!bitmap)
		return -EINVAL;
	fd = vial_file_open_read(config->layer);
	return fd < 0 ? fd : vial_disk_add_frozen(&machine->blks[index].disk, fd, bitmap, length);
}

static int add_disk(struct vial_machine *machine, unsigned index, const struct vial_config *config, const struct snapshot *snapshot,
                    const char **out_error)
{
	const struct vial_disk_config *disk = &config->disks[index];
	struct vial_blk *blk = &machine->blks[index];
	int overlay = -1, base, result;

	*out_error = "a disk image cannot be opened";
	base = vial_file_open_read(disk->image);
	if (base < 0)
		return base;
	if (disk->is_writable) {
		*out_error = "an overlay cannot be made in overlay_dir";
		overlay = vial_file_open_unnamed(config->overlay_dir);
		if (overlay < 0) {
			close(base);
			return overlay;
		}
	}
	*out_error = "a disk image has an impossible size";
	result = vial_disk_init(&blk->disk, base, overlay, disk->size_bytes);
	if (result == 0) {
		*out_error = "the snapshot's disk layer does not fit";
		result = add_frozen_layer(machine, index, disk, snapshot);
	}
	if (result < 0) {
		vial_disk_close(&blk->disk);
		return result;
	}
	vial_blk_init(next_device(machine), blk, &machine->memory, disk->serial ? disk->serial : "");
	machine->disk_count++;
	return 0;
}

static int add_devices(struct vial_machine *machine, const struct vial_config *config, const struct snapshot *snapshot, int tap_fd,
                       const char **out_error)
{
	int result;

	*out_error = "the console cannot be made";
	result = vial_console_init(next_device(machine), &machine->console, &machine->memory);
	for (unsigned i = 0; i < config->disk_count && result == 0; i++)
		result = add_disk(machine, i, config, snapshot, out_error);
	if (result < 0) {
		vial_file_close(&tap_fd);
		return result;
	}
	vial_rng_init(next_device(machine), &machine->memory);
	vial_balloon_init(next_device(machine), &machine->balloon, &machine->memory);
	if (!config->has_net)
		return 0;
	machine->has_net = true;
	*out_error = "the TAP descriptor is not usable";
	return vial_net_init(next_device(machine), &machine->net, &machine->memory, tap_fd, config->mac);
}

static int open_snapshot(struct vial_machine *machine, const struct vial_config *config, struct snapshot *snapshot, const char **out_error)
{
	int result;

	if (!config->restore_state)
		return 0;
	*out_error = "the snapshot's state cannot be read";
	result = vial_file_map(config->restore_state, VIAL_STATE_MAX_BYTES, &snapshot->file);
	if (result < 0)
		return result;
	snapshot->is_used = true;
	result = vial_state_parse(snapshot->file.bytes, snapshot->file.size_bytes, &snapshot->state);
	*out_error = result == -ENOTSUP ? "the snapshot has another format version" : "the snapshot's state is damaged";
	return result < 0 ? result : vial_fingerprint_check(&machine->kvm, &snapshot->state, out_error);
}

static int make_memory(struct vial_machine *machine, const struct vial_config *config, const char **out_error)
{
	int fd, result;

	*out_error = "guest memory cannot be reserved";
	if (!config->restore_memory)
		return vial_memory_create(&machine->memory, config->memory_bytes);
	*out_error = "the snapshot's memory cannot be mapped";
	fd = vial_file_open_read(config->restore_memory);
	if (fd < 0)
		return fd;
	result = vial_memory_map_file(&machine->memory, fd, config->memory_bytes);
	close(fd);
	return result;
}

static int boot(struct vial_machine *machine, const struct vial_config *config, const char **out_error)
{
	struct vial_acpi_config acpi = { machine->vcpu_count, machine->device_count, machine->serial.log_fd >= 0 };
	struct vial_mapped_file kernel = { 0 }, initrd = { 0 };
	uint64_t entry;
	int result;

	*out_error = "the kernel cannot be read";
	result = vial_file_map(config->kernel, KERNEL_MAX_BYTES, &kernel);
	if (result == 0 && config->initrd) {
		*out_error = "the initrd cannot be read";
		result = vial_file_map(config->initrd, KERNEL_MAX_BYTES, &initrd);
	}
	if (result == 0) {
		struct vial_loader_input input = { kernel.bytes, kernel.size_bytes, initrd.bytes, initrd.size_bytes, config->command_line };

		*out_error = "the kernel cannot be loaded: not an x86-64 Linux, or too little memory";
		result = vial_loader_load(&machine->memory, &input, &entry);
	}
	if (result == 0)
		result = vial_acpi_write(&machine->memory, &acpi);
	if (result == 0) {
		*out_error = "the first vCPU cannot be set up";
		result = vial_vcpu_boot(&machine->vcpus[0], &machine->memory, entry, VIAL_BOOT_PARAMS_ADDRESS);
	}
	vial_file_unmap(&kernel);
	vial_file_unmap(&initrd);
	if (result == 0)
		vial_machine_new_generation(machine, false);
	return result;
}

static int restore(struct vial_machine *machine, const struct vial_config *config, const struct snapshot *snapshot, uint16_t *epoch,
                   const char **out_error)
{
	struct vial_mapped_file hot = { 0 };
	uint64_t fetched;
	int result;

	if (config->restore_hot && vial_file_map(config->restore_hot, VIAL_STATE_MAX_BYTES, &hot) == 0) {
		vial_hotset_fetch(&machine->memory, hot.bytes, hot.size_bytes, &fetched);
		vial_file_unmap(&hot);
	}
	result = vial_machine_load(machine, &snapshot->state, epoch);
	*out_error = result == -EINVAL ? "the snapshot is of a machine with another shape" : "the snapshot's state was refused";
	/* Last: loading the interrupt chips would have wiped this interrupt out. */
	if (result == 0)
		vial_machine_new_generation(machine, true);
	return result;
}

int vial_machine_build(struct vial_machine *machine, const struct vial_config *config, int tap_fd, uint16_t *epoch, const char **out_error)
{
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	int result = snapshot ? vial_kvm_open(&machine->kvm, out_error) : -ENOMEM;

	machine->vcpu_count = config->vcpus;
	if (result == 0)
		result = open_snapshot(machine, config, snapshot, out_error);
	if (result == 0)
		result = make_memory(machine, config, out_error);
	if (result == 0 && config->serial_log) {
		*out_error = "the serial log cannot be opened";
		machine->serial.log_fd = vial_file_open_log(config->serial_log);
		result = machine->serial.log_fd < 0 ? machine->serial.log_fd : 0;
	}
	if (result == 0) {
		result = add_devices(machine, config, snapshot, tap_fd, out_error);
		tap_fd = -1;
	}
	vial_file_close(&tap_fd);
	/* While there is a /proc. */
	if (config->records_hot || !machine->memory.is_file)
		machine->pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (result == 0)
		result = vial_machine_create_vm(machine, out_error);
	if (result == 0)
		result = config->restore_state ? restore(machine, config, snapshot, epoch, out_error) : boot(machine, config, out_error);
	if (snapshot)
		vial_file_unmap(&snapshot->file);
	free(snapshot);
	return result;
}
