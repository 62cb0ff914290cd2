/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See vcpu.h. Parking without a lost wake-up: the asker sets wants_park and kvm_run.immediate_exit, then signals. Whatever the thread was
 * doing, its next KVM_RUN returns EINTR at once, after having completed the I/O that was pending: registers are then exact.
 */
#include "vcpu.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "cpuid.h"
#include "files.h"

#define KICK_SIGNAL SIGUSR1
/* A vCPU thread only runs KVM_RUN and short device accesses. */
#define STACK_BYTES (128u * 1024u)

static void on_kick(int signal_number)
{
	(void)signal_number; /* its only purpose is EINTR */
}

void vial_vcpu_init_signal(void)
{
	struct sigaction action = { .sa_handler = on_kick };

	sigaction(KICK_SIGNAL, &action, NULL);
}

static int set_cpuid(const struct vial_kvm *kvm, struct vial_vcpu *vcpu, unsigned count)
{
	size_t size = sizeof(*kvm->cpuid) + kvm->cpuid->nent * sizeof(kvm->cpuid->entries[0]);
	struct kvm_cpuid2 *copy = malloc(size);
	int result = -ENOMEM;

	if (copy) {
		memcpy(copy, kvm->cpuid, size);
		vial_cpuid_for_vcpu(copy, vcpu->index, count);
		result = vial_ioctl(vcpu->fd, KVM_SET_CPUID2, copy);
	}
	free(copy);
	return result;
}

int vial_vcpu_create(struct vial_vcpu *vcpu, const struct vial_kvm *kvm, unsigned index, unsigned count, const struct vial_vcpu_bus *bus)
{
	int result;

	*vcpu = (struct vial_vcpu){ .index = index, .fd = -1, .bus = bus, .run_bytes = (size_t)kvm->run_bytes, .wants_park = true };
	pthread_mutex_init(&vcpu->lock, NULL);
	pthread_cond_init(&vcpu->changed, NULL);
	vcpu->fd = ioctl(kvm->vm_fd, KVM_CREATE_VCPU, (unsigned long)index);
	if (vcpu->fd < 0)
		return -errno;
	vcpu->run = mmap(NULL, vcpu->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->fd, 0);
	if (vcpu->run == MAP_FAILED) {
		vcpu->run = NULL;
		return -errno;
	}
	result = set_cpuid(kvm, vcpu, count);
	return result < 0 ? result : 0;
}

static void finish(struct vial_vcpu *vcpu, enum vial_vcpu_end end)
{
	int running = VIAL_VCPU_RUNNING;

	/* What the bus said first (a reboot) is the better reason. */
	atomic_compare_exchange_strong(&vcpu->end, &running, (int)end);
}

static void handle_io(struct vial_vcpu *vcpu)
{
	struct kvm_run *run = vcpu->run;
	uint64_t bytes = (uint64_t)run->io.size * run->io.count;

	/* The offset is KVM's, not the guest's, but it costs nothing to be sure. */
	if (run->io.data_offset > vcpu->run_bytes || bytes > vcpu->run_bytes - run->io.data_offset)
		return;
	for (uint32_t i = 0; i < run->io.count; i++)
		vcpu->bus->io(vcpu->bus->self, run->io.port, run->io.direction == KVM_EXIT_IO_OUT,
		              (uint8_t *)run + run->io.data_offset + (size_t)i * run->io.size, run->io.size);
}

static void handle_exit(struct vial_vcpu *vcpu)
{
	struct kvm_run *run = vcpu->run;

	switch (run->exit_reason) {
	case KVM_EXIT_IO:
		handle_io(vcpu);
		break;
	case KVM_EXIT_MMIO:
		if (run->mmio.len <= sizeof(run->mmio.data))
			vcpu->bus->mmio(vcpu->bus->self, run->mmio.phys_addr, run->mmio.is_write, run->mmio.data, run->mmio.len);
		break;
	case KVM_EXIT_INTR:
	case KVM_EXIT_IRQ_WINDOW_OPEN:
		break;
	case KVM_EXIT_SHUTDOWN:
		finish(vcpu, VIAL_VCPU_CRASH);
		break;
	case KVM_EXIT_SYSTEM_EVENT:
		finish(vcpu, run->system_event.type == KVM_SYSTEM_EVENT_RESET ? VIAL_VCPU_REBOOT : VIAL_VCPU_POWEROFF);
		break;
	case KVM_EXIT_INTERNAL_ERROR:
		vcpu->exit_detail = run->internal.suberror;
		finish(vcpu, VIAL_VCPU_ERROR);
		break;
	case KVM_EXIT_FAIL_ENTRY:
		vcpu->exit_detail = (uint32_t)run->fail_entry.hardware_entry_failure_reason;
		finish(vcpu, VIAL_VCPU_ERROR);
		break;
	default:
		finish(vcpu, VIAL_VCPU_ERROR);
	}
}

/* Waits until it may run. False when the thread shall end. */
static bool park(struct vial_vcpu *vcpu)
{
	bool goes_on;

	pthread_mutex_lock(&vcpu->lock);
	while (vcpu->wants_park && !vcpu->wants_end) {
		vcpu->is_parked = true;
		pthread_cond_broadcast(&vcpu->changed);
		pthread_cond_wait(&vcpu->changed, &vcpu->lock);
	}
	vcpu->is_parked = false;
	goes_on = !vcpu->wants_end;
	if (goes_on)
		vcpu->run->immediate_exit = 0;
	pthread_mutex_unlock(&vcpu->lock);
	return goes_on;
}

/* A vCPU that has ended stays parked until the machine is closed, so pausing and stopping need no special case. */
static void stay_ended(struct vial_vcpu *vcpu)
{
	pthread_mutex_lock(&vcpu->lock);
	vcpu->is_parked = true;
	pthread_cond_broadcast(&vcpu->changed);
	while (!vcpu->wants_end)
		pthread_cond_wait(&vcpu->changed, &vcpu->lock);
	pthread_mutex_unlock(&vcpu->lock);
}

static void *run(void *argument)
{
	struct vial_vcpu *vcpu = argument;

	if (vcpu->bus->confine && vcpu->bus->confine(vcpu->bus->self) < 0)
		finish(vcpu, VIAL_VCPU_ERROR);
	else if (!park(vcpu))
		return NULL;
	while (atomic_load(&vcpu->end) == VIAL_VCPU_RUNNING) {
		if (ioctl(vcpu->fd, KVM_RUN, 0) == 0) {
			atomic_fetch_add_explicit(&vcpu->exits, 1, memory_order_relaxed);
			handle_exit(vcpu);
		} else if (errno == EINTR) {
			if (!park(vcpu))
				return NULL;
		} else if (errno != EAGAIN) { /* EAGAIN: a waiting processor got its start-up message */
			vcpu->exit_detail = (uint32_t)errno;
			finish(vcpu, VIAL_VCPU_ERROR);
		}
	}
	vcpu->exit_reason = vcpu->run->exit_reason;
	vcpu->bus->ended(vcpu->bus->self, vcpu);
	stay_ended(vcpu);
	return NULL;
}

int vial_vcpu_start(struct vial_vcpu *vcpu)
{
	pthread_attr_t attributes;
	int result;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	result = -pthread_create(&vcpu->thread, &attributes, run, vcpu);
	pthread_attr_destroy(&attributes);
	vcpu->has_thread = result == 0;
	return result < 0 ? result : vial_vcpu_wait_parked(vcpu, 10000);
}

void vial_vcpu_resume(struct vial_vcpu *vcpu)
{
	/* The guest's watchdogs learn that it was the host that slept. EINVAL: the guest has no kvm-clock. */
	ioctl(vcpu->fd, KVM_KVMCLOCK_CTRL, 0);
	pthread_mutex_lock(&vcpu->lock);
	vcpu->wants_park = false;
	pthread_cond_broadcast(&vcpu->changed);
	pthread_mutex_unlock(&vcpu->lock);
}

void vial_vcpu_ask_park(struct vial_vcpu *vcpu)
{
	pthread_mutex_lock(&vcpu->lock);
	vcpu->wants_park = true;
	vcpu->run->immediate_exit = 1;
	pthread_mutex_unlock(&vcpu->lock);
	if (vcpu->has_thread)
		pthread_kill(vcpu->thread, KICK_SIGNAL);
}

int vial_vcpu_wait_parked(struct vial_vcpu *vcpu, unsigned timeout_ms)
{
	return vial_clock_wait(&vcpu->lock, &vcpu->changed, &vcpu->is_parked, timeout_ms);
}

void vial_vcpu_close(struct vial_vcpu *vcpu, bool has_thread)
{
	if (has_thread && vcpu->has_thread) {
		pthread_mutex_lock(&vcpu->lock);
		vcpu->wants_end = true;
		if (vcpu->run)
			vcpu->run->immediate_exit = 1;
		pthread_cond_broadcast(&vcpu->changed);
		pthread_mutex_unlock(&vcpu->lock);
		pthread_kill(vcpu->thread, KICK_SIGNAL);
		pthread_join(vcpu->thread, NULL);
	}
	if (vcpu->run)
		munmap(vcpu->run, vcpu->run_bytes);
	vial_file_close(&vcpu->fd);
	vcpu->run = NULL;
	vcpu->has_thread = false;
}
