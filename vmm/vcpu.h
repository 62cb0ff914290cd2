/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One virtual processor and its thread. The thread runs the guest until it is told to park, finishes the access it was in the middle of, and
 * waits; while it is parked the control thread may read and write the processor's state.
 */
#pragma once

#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvm.h"

struct vial_vcpu;

/* Why a vCPU stopped for good. */
enum vial_vcpu_end {
	VIAL_VCPU_RUNNING = 0,
	VIAL_VCPU_POWEROFF, /* ACPI sleep */
	VIAL_VCPU_REBOOT,   /* reset through the keyboard controller or the reset register */
	VIAL_VCPU_CRASH,    /* triple fault */
	VIAL_VCPU_ERROR,    /* KVM could not go on */
};

/* Accesses the guest makes that KVM does not serve itself. Called on the vCPU's thread. */
struct vial_vcpu_bus {
	void *self;
	void (*io)(void *self, uint16_t port, bool is_write, uint8_t *data, uint32_t size);
	void (*mmio)(void *self, uint64_t address, bool is_write, uint8_t *data, uint32_t size);
	/* The vCPU has ended; the machine should stop. */
	void (*ended)(void *self, struct vial_vcpu *vcpu);
	/* First thing on the new thread: the seccomp filter. */
	int (*confine)(void *self);
};

struct vial_vcpu {
	unsigned index;
	int fd;
	struct kvm_run *run;
	size_t run_bytes;
	const struct vial_vcpu_bus *bus;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool wants_park; /* asked by the control thread */
	bool is_parked;  /* answered by the vCPU's */
	bool wants_end;
	atomic_int end;       /* enum vial_vcpu_end, may be set by the bus for REBOOT and POWEROFF */
	uint32_t exit_reason; /* with VIAL_VCPU_ERROR */
	uint32_t exit_detail;
	atomic_ulong exits;
};

int vial_vcpu_create(struct vial_vcpu *vcpu, const struct vial_kvm *kvm, unsigned index, unsigned count, const struct vial_vcpu_bus *bus);
/* Starts the thread, parked. */
int vial_vcpu_start(struct vial_vcpu *vcpu);
void vial_vcpu_resume(struct vial_vcpu *vcpu);
/* Asks; wait follows. Both halves apart, so that several park at the same time. */
void vial_vcpu_ask_park(struct vial_vcpu *vcpu);
/* 0, or -ETIMEDOUT. */
int vial_vcpu_wait_parked(struct vial_vcpu *vcpu, unsigned timeout_ms);
/* Ends the thread and closes the vCPU. In a fork, where the thread does not exist, only the latter. */
void vial_vcpu_close(struct vial_vcpu *vcpu, bool has_thread);
/* Once per process, before any vCPU starts: the signal that gets a thread out of the guest. */
void vial_vcpu_init_signal(void);
