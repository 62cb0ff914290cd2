/* SPDX-License-Identifier: Apache-2.0 */
/* See kvm.h. Runs in the control thread, before vCPUs run or while they are parked. */
#include "kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cpuid.h"
#include "files.h"
#include "layout.h"

#define API_VERSION 12
#define MAX_CPUID_ENTRIES 256u
#define MAX_MSRS 512u
/* struct kvm_xsave without the tail that only AMX needs; we hide AMX. */
#define XSAVE_MINIMUM 4096

struct saved_vm {
	struct kvm_pit_state2 pit;
	struct kvm_clock_data clock;
	struct kvm_irqchip chips[3];
};

int vial_ioctl(int fd, unsigned long request, void *argument)
{
	int result;

	do
		result = ioctl(fd, request, argument);
	while (result < 0 && errno == EINTR);
	return result < 0 ? -errno : result;
}

static int check_capabilities(int fd, const char **out_reason)
{
	static const struct {
		long capability;
		const char *reason;
	} needed[] = {
		{ KVM_CAP_IRQCHIP, "/dev/kvm has no interrupt controller" },
		{ KVM_CAP_PIT2, "/dev/kvm has no timer (PIT2)" },
		{ KVM_CAP_IRQFD, "/dev/kvm has no irqfd" },
		{ KVM_CAP_IOEVENTFD, "/dev/kvm has no ioeventfd" },
		{ KVM_CAP_USER_MEMORY, "/dev/kvm has no user memory" },
		{ KVM_CAP_SET_TSS_ADDR, "/dev/kvm cannot place the TSS" },
		{ KVM_CAP_EXT_CPUID, "/dev/kvm cannot set CPUID" },
		{ KVM_CAP_MP_STATE, "/dev/kvm cannot save the vCPU's run state" },
		{ KVM_CAP_VCPU_EVENTS, "/dev/kvm cannot save vCPU events" },
		{ KVM_CAP_DEBUGREGS, "/dev/kvm cannot save debug registers" },
		{ KVM_CAP_XSAVE, "/dev/kvm cannot save the extended registers" },
		{ KVM_CAP_XCRS, "/dev/kvm cannot save XCR0" },
		{ KVM_CAP_ADJUST_CLOCK, "/dev/kvm cannot set the clock" },
		{ KVM_CAP_IMMEDIATE_EXIT, "/dev/kvm cannot be stopped at once" },
	};

	if (ioctl(fd, KVM_GET_API_VERSION, 0) != API_VERSION) {
		*out_reason = "/dev/kvm speaks another API version";
		return -ENOTSUP;
	}
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		if (ioctl(fd, KVM_CHECK_EXTENSION, needed[i].capability) <= 0) {
			*out_reason = needed[i].reason;
			return -ENOTSUP;
		}
	}
	return 0;
}

static int load_lists(struct vial_kvm *kvm)
{
	struct kvm_msr_list *msrs = calloc(1, sizeof(*msrs) + MAX_MSRS * sizeof(msrs->indices[0]));
	struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) + MAX_CPUID_ENTRIES * sizeof(cpuid->entries[0]));
	int result = msrs && cpuid ? 0 : -ENOMEM;

	if (result == 0) {
		msrs->nmsrs = MAX_MSRS;
		cpuid->nent = MAX_CPUID_ENTRIES;
		result = vial_ioctl(kvm->fd, KVM_GET_MSR_INDEX_LIST, msrs);
	}
	if (result >= 0)
		result = vial_ioctl(kvm->fd, KVM_GET_SUPPORTED_CPUID, cpuid);
	if (result < 0) {
		free(msrs);
		free(cpuid);
		return result;
	}
	kvm->msrs = msrs;
	kvm->cpuid = cpuid;
	vial_cpuid_restrict(cpuid, ioctl(kvm->fd, KVM_CHECK_EXTENSION, KVM_CAP_TSC_DEADLINE_TIMER) > 0);
	return 0;
}

int vial_kvm_open(struct vial_kvm *kvm, const char **out_reason)
{
	int result;

	*kvm = (struct vial_kvm){ .fd = open("/dev/kvm", O_RDWR | O_CLOEXEC), .vm_fd = -1 };
	if (kvm->fd < 0) {
		*out_reason = errno == ENOENT ? "there is no /dev/kvm" : "/dev/kvm cannot be opened";
		return -errno;
	}
	result = check_capabilities(kvm->fd, out_reason);
	if (result == 0) {
		*out_reason = "/dev/kvm does not list its CPUID and MSRs";
		result = load_lists(kvm);
	}
	if (result == 0) {
		kvm->run_bytes = ioctl(kvm->fd, KVM_GET_VCPU_MMAP_SIZE, 0);
		result = kvm->run_bytes < (int)sizeof(struct kvm_run) ? -ENOTSUP : 0;
	}
	if (result < 0)
		vial_kvm_close(kvm);
	return result;
}

static int set_slot(const struct vial_kvm *kvm, uint32_t slot, uint64_t address, uint64_t size, uint8_t *host)
{
	struct kvm_userspace_memory_region region = {
		.slot = slot,
		.guest_phys_addr = address,
		.memory_size = size,
		.userspace_addr = (uintptr_t)host,
	};

	return size == 0 ? 0 : vial_ioctl(kvm->vm_fd, KVM_SET_USER_MEMORY_REGION, &region);
}

static int set_slots(const struct vial_kvm *kvm, const struct vial_memory *memory)
{
	uint64_t low = vial_memory_low_bytes(memory);
	int result = set_slot(kvm, 0, 0, low, memory->base);

	if (result >= 0)
		result = set_slot(kvm, 1, VIAL_HIGH_RAM_START, vial_memory_high_bytes(memory), memory->base + low);
	return result;
}

int vial_kvm_create(struct vial_kvm *kvm, const struct vial_memory *memory, const char **out_reason)
{
	struct kvm_pit_config pit = { .flags = KVM_PIT_SPEAKER_DUMMY };
	uint64_t identity_map = VIAL_IDENTITY_MAP_ADDRESS;
	int result;

	*out_reason = "KVM_CREATE_VM failed";
	kvm->vm_fd = vial_ioctl(kvm->fd, KVM_CREATE_VM, NULL);
	if (kvm->vm_fd < 0)
		return kvm->vm_fd;
	/* Intel without unrestricted guest needs both; elsewhere they do nothing. */
	*out_reason = "KVM_SET_TSS_ADDR failed";
	result = ioctl(kvm->vm_fd, KVM_SET_TSS_ADDR, VIAL_TSS_ADDRESS) < 0 ? -errno : 0;
	if (result == 0)
		vial_ioctl(kvm->vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity_map);
	if (result == 0) {
		*out_reason = "KVM_CREATE_IRQCHIP failed";
		result = vial_ioctl(kvm->vm_fd, KVM_CREATE_IRQCHIP, NULL);
	}
	if (result >= 0) {
		*out_reason = "KVM_CREATE_PIT2 failed";
		result = vial_ioctl(kvm->vm_fd, KVM_CREATE_PIT2, &pit);
	}
	if (result >= 0) {
		*out_reason = "KVM_SET_USER_MEMORY_REGION failed";
		result = set_slots(kvm, memory);
	}
	if (result < 0) {
		vial_kvm_close_vm(kvm);
		return result;
	}
	kvm->xsave_bytes = ioctl(kvm->vm_fd, KVM_CHECK_EXTENSION, KVM_CAP_XSAVE2);
	if (kvm->xsave_bytes < XSAVE_MINIMUM)
		kvm->xsave_bytes = XSAVE_MINIMUM;
	return 0;
}

void vial_kvm_close_vm(struct vial_kvm *kvm)
{
	vial_file_close(&kvm->vm_fd);
}

void vial_kvm_close(struct vial_kvm *kvm)
{
	vial_kvm_close_vm(kvm);
	vial_file_close(&kvm->fd);
	free(kvm->cpuid);
	free(kvm->msrs);
	*kvm = (struct vial_kvm){ .fd = -1, .vm_fd = -1 };
}

int vial_kvm_irqfd(const struct vial_kvm *kvm, int event_fd, unsigned gsi)
{
	struct kvm_irqfd irqfd = { .fd = (uint32_t)event_fd, .gsi = gsi };

	return vial_ioctl(kvm->vm_fd, KVM_IRQFD, &irqfd);
}

int vial_kvm_ioeventfd(const struct vial_kvm *kvm, int event_fd, uint64_t address)
{
	struct kvm_ioeventfd ioeventfd = { .addr = address, .len = 4, .fd = event_fd };

	return vial_ioctl(kvm->vm_fd, KVM_IOEVENTFD, &ioeventfd);
}

int vial_kvm_save(const struct vial_kvm *kvm, struct vial_state_writer *writer)
{
	struct saved_vm saved = { 0 };
	int result = vial_ioctl(kvm->vm_fd, KVM_GET_PIT2, &saved.pit);

	if (result >= 0)
		result = vial_ioctl(kvm->vm_fd, KVM_GET_CLOCK, &saved.clock);
	for (uint32_t i = 0; i < 3 && result >= 0; i++) {
		saved.chips[i].chip_id = i;
		result = vial_ioctl(kvm->vm_fd, KVM_GET_IRQCHIP, &saved.chips[i]);
	}
	if (result < 0)
		return result;
	/* With its flags the clock would jump by the time we were away; the agent steps the wall clock, monotonic time goes on. */
	saved.clock = (struct kvm_clock_data){ .clock = saved.clock.clock };
	vial_state_put(writer, VIAL_STATE_VM, 0, &saved, sizeof(saved));
	return 0;
}

int vial_kvm_load(const struct vial_kvm *kvm, const struct vial_state *state)
{
	struct saved_vm saved;
	int result = vial_state_get(state, VIAL_STATE_VM, 0, &saved, sizeof(saved));

	if (result >= 0)
		result = vial_ioctl(kvm->vm_fd, KVM_SET_PIT2, &saved.pit);
	if (result >= 0)
		result = vial_ioctl(kvm->vm_fd, KVM_SET_CLOCK, &saved.clock);
	for (uint32_t i = 0; i < 3 && result >= 0; i++) {
		saved.chips[i].chip_id = i;
		result = vial_ioctl(kvm->vm_fd, KVM_SET_IRQCHIP, &saved.chips[i]);
	}
	return result < 0 ? result : 0;
}
