/* SPDX-License-Identifier: Apache-2.0 */
/* See probe.h. One thread; a timer gets it out of a guest that never comes back. */
#include "probe.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "kvm.h"
#include "vcpu.h"
#include "vcpu_state.h"

#define GUEST_ADDRESS 0x200000ull
#define MEMORY_BYTES (8ull << 20)
#define STEP_PORT 0xf4
#define LOOPS 20000000ull
#define EXITS 256u
#define TIME_LIMIT_S 20
#define TRIES 3
/* Hardware does a million loops per millisecond, an emulator of KVM-SVM in software 200 000, an instruction emulator some thousands. */
#define MINIMUM_LOOPS_PER_MS 20000u
enum { STEP_RUNNING = 1, STEP_SSE, STEP_AVX, STEP_CMPXCHG16B, STEP_LOOP, STEP_EXITS, STEP_RING3 };

static volatile sig_atomic_t is_late;

static void on_alarm(int signal_number)
{
	is_late = 1;
}

static const char *missing_step(int last_step)
{
	switch (last_step) {
	case 0:
		return "/dev/kvm does not run a 64-bit guest";
	case STEP_RUNNING:
		return "/dev/kvm cannot run SSE instructions: it emulates instead of using the processor (paravirtual KVM)";
	case STEP_SSE:
		return "/dev/kvm cannot run XSAVE and AVX instructions: it emulates instead of using the processor (paravirtual KVM)";
	case STEP_AVX:
		return "/dev/kvm cannot run CMPXCHG16B: it emulates instead of using the processor (paravirtual KVM)";
	case STEP_CMPXCHG16B:
		return "/dev/kvm does not finish a simple loop in time";
	case STEP_LOOP:
		return "/dev/kvm does not return from I/O exits";
	default:
		return "/dev/kvm does not run ring 3 code";
	}
}

/* Runs until the guest halts, faults or is late. */
static void run_guest(struct vial_vcpu *vcpu, struct vial_probe *probe)
{
	uint64_t step_began = vial_clock_ns(), exits_began = 0;

	while (!is_late && probe->last_step < STEP_RING3) {
		uint8_t value;
		int result = ioctl(vcpu->fd, KVM_RUN, 0);

		if (result < 0 && errno != EAGAIN && errno != EINTR)
			return;
		if (result < 0)
			continue;
		if (vcpu->run->exit_reason != KVM_EXIT_IO || vcpu->run->io.port != STEP_PORT)
			return;
		value = ((uint8_t *)vcpu->run)[vcpu->run->io.data_offset];
		if (value == 0x80)
			continue;
		if (value != probe->last_step + 1)
			return;
		probe->last_step = value;
		if (value == STEP_CMPXCHG16B)
			step_began = vial_clock_ns();
		if (value == STEP_LOOP) {
			exits_began = vial_clock_ns();
			probe->loops_per_ms = LOOPS * 1000000ull / (exits_began - step_began + 1);
		}
		if (value == STEP_EXITS)
			probe->exit_ns = (vial_clock_ns() - exits_began) / EXITS;
	}
}

static void judge(struct vial_probe *probe, const struct vial_vcpu *vcpu)
{
	probe->is_complete = probe->last_step == STEP_RING3;
	if (!probe->is_complete) {
		snprintf(probe->reason, sizeof(probe->reason), "%s", missing_step(probe->last_step));
		probe->exit_reason = vcpu->run->exit_reason;
	} else if (probe->loops_per_ms < MINIMUM_LOOPS_PER_MS) {
		snprintf(probe->reason, sizeof(probe->reason), "/dev/kvm runs guest code too slowly (%llu loops per ms): it emulates",
		         (unsigned long long)probe->loops_per_ms);
	} else {
		probe->is_usable = true;
		snprintf(probe->reason, sizeof(probe->reason), "/dev/kvm runs 64-bit guests on the processor");
	}
}

static int start_timer(timer_t *out_timer)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	/* Repeats: one that arrives just before KVM_RUN would be lost. */
	struct itimerspec limit = { .it_value = { TIME_LIMIT_S, 0 }, .it_interval = { 0, 100000000 } };

	sigaction(SIGALRM, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, out_timer) < 0 || timer_settime(*out_timer, 0, &limit, NULL) < 0)
		return -errno;
	return 0;
}

void vial_probe_run(struct vial_probe *out_probe)
{
	struct vial_kvm kvm;
	struct vial_memory memory = { 0 };
	struct vial_vcpu vcpu = { .fd = -1 };
	const char *error = "guest memory cannot be reserved";
	timer_t timer;
	int result;

	*out_probe = (struct vial_probe){ 0 };
	result = vial_kvm_open(&kvm, &error);
	if (result == 0)
		result = vial_memory_create(&memory, MEMORY_BYTES);
	if (result == 0)
		result = vial_kvm_create(&kvm, &memory, &error);
	if (result == 0) {
		vial_fingerprint_get(&kvm, &out_probe->host);
		error = "/dev/kvm does not take the probe's vCPU";
		result = vial_vcpu_create(&vcpu, &kvm, 0, 1, NULL);
	}
	if (result == 0)
		result = vial_memory_write(&memory, GUEST_ADDRESS, vial_probe_guest_start, (size_t)(vial_probe_guest_end - vial_probe_guest_start));
	if (result == 0)
		result = vial_vcpu_boot(&vcpu, &memory, GUEST_ADDRESS, 0);
	if (result == 0)
		result = start_timer(&timer);
	if (result == 0) {
		run_guest(&vcpu, out_probe);
		timer_delete(timer);
		judge(out_probe, &vcpu);
	} else {
		snprintf(out_probe->reason, sizeof(out_probe->reason), "%s", error);
	}
	vial_vcpu_close(&vcpu, false);
	vial_kvm_close(&kvm);
	vial_memory_close(&memory);
}

int vial_probe_main(void)
{
	struct vial_probe probe;
	char host[128];
	json_t *json;

	/* QEMU's emulated SVM now and then faults at AVX when an interrupt comes at the wrong moment; a KVM that cannot do it never can. */
	for (int tries = 0; tries < TRIES && (tries == 0 || probe.exit_reason == KVM_EXIT_SHUTDOWN); tries++)
		vial_probe_run(&probe);
	snprintf(host, sizeof(host), "%.12s-%08x-%08x-%s", probe.host.vendor, probe.host.signature, probe.host.features, probe.host.kernel);
	json = json_pack("{s:b,s:b,s:s,s:i,s:i,s:I,s:I,s:s,s:s}", "usable", probe.is_usable, "works", probe.is_complete, "reason", probe.reason,
	                 "last_step", probe.last_step, "exit_reason", (int)probe.exit_reason, "loops_per_ms", (json_int_t)probe.loops_per_ms,
	                 "exit_ns", (json_int_t)probe.exit_ns, "build", probe.host.build, "host", host);
	json_dumpf(json, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(json);
	return probe.is_usable ? 0 : 1;
}
