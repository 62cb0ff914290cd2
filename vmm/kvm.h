/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KVM virtual machine: /dev/kvm, the VM with its interrupt chips and memory slots, and the wiring of eventfds. vCPUs are in vcpu.h,
 * what they hold in vcpu_state.h. Of one process's life: opened once, the VM created once; a fork closes its parent's and creates anew.
 */
#pragma once

#include <linux/kvm.h>
#include <stdint.h>

#include "memory.h"
#include "state.h"

struct vial_kvm {
	int fd;    /* /dev/kvm, kept for forks */
	int vm_fd; /* -1 until created */
	int run_bytes;
	int xsave_bytes;
	struct kvm_cpuid2 *cpuid; /* what KVM supports, made fit for our guests (cpuid.c) */
	struct kvm_msr_list *msrs;
};

/* Checks version and capabilities. On failure *out_reason is one sentence. */
int vial_kvm_open(struct vial_kvm *kvm, const char **out_reason);
int vial_kvm_create(struct vial_kvm *kvm, const struct vial_memory *memory, const char **out_reason);
/* Closes the VM but not /dev/kvm. */
void vial_kvm_close_vm(struct vial_kvm *kvm);
void vial_kvm_close(struct vial_kvm *kvm);

int vial_kvm_irqfd(const struct vial_kvm *kvm, int event_fd, unsigned gsi);
/* Any 4-byte write to `address` posts the eventfd, without leaving the kernel. */
int vial_kvm_ioeventfd(const struct vial_kvm *kvm, int event_fd, uint64_t address);

/* PIT, clock, PICs, IOAPIC. While every vCPU is parked. */
int vial_kvm_save(const struct vial_kvm *kvm, struct vial_state_writer *writer);
/* After the vCPUs were restored; the clock goes on from where it stood. */
int vial_kvm_load(const struct vial_kvm *kvm, const struct vial_state *state);

/* ioctl that is tried again when a signal interrupts it. The result, or -errno. */
int vial_ioctl(int fd, unsigned long request, void *argument);
