/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fork.h. Only the control thread survives fork(2). That is sound because vCPU and device threads are parked in a condition variable,
 * holding no lock of ours; the locks they waited on are made anew. KVM's descriptors of the parent are of no use to the child (KVM_RUN fails
 * with EIO in another address space), /dev/kvm itself is.
 */
#include "fork.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "files.h"
#include "vcpu_state.h"

pid_t vial_fork(void)
{
	pid_t pid = fork();

	return pid < 0 ? -errno : pid;
}

int vial_fork_save(struct vial_machine *machine, struct vial_state_writer *writer)
{
	int result = 0;

	for (unsigned i = 0; i < machine->vcpu_count && result == 0; i++)
		result = vial_vcpu_save(&machine->vcpus[i], &machine->kvm, writer);
	if (result == 0)
		result = vial_kvm_save(&machine->kvm, writer);
	return result < 0 ? result : vial_state_end(writer);
}

int vial_fork_freeze_disks(struct vial_machine *machine, int *fds)
{
	for (unsigned i = 0; i < machine->disk_count; i++) {
		int result;

		if (vial_disk_is_read_only(&machine->blks[i].disk))
			continue;
		result = vial_disk_freeze(&machine->blks[i].disk, *fds);
		if (result < 0)
			return result;
		*fds++ = -1;
	}
	return 0;
}

static int replace_host_ends(struct vial_machine *machine, const struct vial_fork_child *child)
{
	const int *overlay = child->overlay_fds;
	int result = 0;

	for (unsigned i = 0; i < machine->disk_count && result == 0; i++) {
		if (!vial_disk_is_read_only(&machine->blks[i].disk))
			result = vial_disk_replace_top(&machine->blks[i].disk, *overlay++);
	}
	if (result == 0)
		result = vial_pipe_renew(&machine->console.to_guest);
	if (result == 0)
		result = vial_pipe_renew(&machine->console.from_guest);
	for (unsigned i = 0; i < machine->device_count; i++)
		pthread_mutex_init(&machine->devices[i].lock, NULL);
	pthread_mutex_init(&machine->serial.lock, NULL);
	/* It shows the parent's pages. */
	vial_file_close(&machine->pagemap_fd);
	return result;
}

int vial_fork_become(struct vial_machine *machine, const struct vial_state_writer *state, const struct vial_fork_child *child, const char **out_error)
{
	struct vial_state *parsed = malloc(sizeof(*parsed));
	int result = parsed ? vial_state_parse(state->bytes, state->size_bytes, parsed) : -ENOMEM;

	vial_machine_forget_vm(machine);
	*out_error = "the child's disk or channel cannot be made";
	if (result == 0)
		result = replace_host_ends(machine, child);
	if (result == 0)
		result = vial_machine_create_vm(machine, out_error);
	if (result == 0) {
		*out_error = "the child's vCPUs do not take the parent's state";
		result = vial_machine_load_vm(machine, parsed);
	}
	if (result == 0 && machine->has_net) {
		*out_error = "the child's TAP is not usable";
		result = vial_net_attach(&machine->devices[machine->device_count - 1], child->tap_fd);
	}
	if (result == 0) {
		vial_machine_new_generation(machine, true);
		*out_error = "the child's threads cannot be started";
		result = vial_machine_start(machine);
	}
	free(parsed);
	return result;
}
